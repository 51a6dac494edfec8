"""The table of formats: how the files, packages or formulas of a source become arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tangentbench.datasets.dataset import Dataset, contiguous
from tangentbench.datasets.prepare import embedded, formats, synthetic
from tangentbench.datasets.prepare.gather import gather
from tangentbench.datasets.prepare.sources import Source
from tangentbench.paths import Paths

Splits = tuple[Any, Any, Any, Any]
"""x_train, y_train, x_test, y_test; inputs as bytes 0 to 255."""


def read_idx_files(source: Source, contents: Mapping[str, bytes]) -> Splits:
    images, labels = formats.read_idx_images, formats.read_idx_labels
    return (
        images(*only(source, contents, "train_images")),
        labels(*only(source, contents, "train_labels")),
        images(*only(source, contents, "test_images")),
        labels(*only(source, contents, "test_labels")),
    )


def read_cifar_files(source: Source, contents: Mapping[str, bytes]) -> Splits:
    train, test = (
        formats.read_cifar([data for data, _ in having(source, contents, role)], f"the {role} part of {source.name}")
        for role in ("train", "test")
    )
    return *train, *test


def read_stl_files(source: Source, contents: Mapping[str, bytes]) -> Splits:
    images, labels = formats.read_stl_images, formats.read_stl_labels
    return (
        images(*only(source, contents, "train_images")),
        labels(only(source, contents, "train_labels")[0]),
        images(*only(source, contents, "test_images")),
        labels(only(source, contents, "test_labels")[0]),
    )


def having(source: Source, contents: Mapping[str, bytes], role: str) -> list[tuple[bytes, str]]:
    """The contents with `role` and their names, in the order of the configuration."""
    found = [(contents[name], name) for name, content in source.contents.items() if content.role == role]
    if not found:
        raise ValueError(f"the format {source.format} needs a content with the role {role}")
    return found


def only(source: Source, contents: Mapping[str, bytes], role: str) -> tuple[bytes, str]:
    (found,) = having(source, contents, role)
    return found


FROM_FILES: Mapping[str, Callable[[Source, Mapping[str, bytes]], Splits]] = {
    "idx": read_idx_files,
    "cifar": read_cifar_files,
    "stl": read_stl_files,
}


def make_word_vectors(source: Source, contents: Mapping[str, bytes], words: Sequence[str]) -> Dataset:
    """A class a word: x_train holds the vectors of `words` in their order, y_train counts them, and nothing tests."""
    x = formats.read_word_vectors(only(source, contents, "words")[0], words, source.title)
    y = np.arange(len(words), dtype=np.int64)
    return Dataset(source.name, x, y, x[:0], y[:0], tuple(words))


FROM_TEXT: Mapping[str, Callable[..., Dataset]] = {"word_vectors": make_word_vectors}

FROM_PACKAGES: Mapping[str, Callable[..., Splits]] = {
    "digits_csv": embedded.read_digits,
    "photographs": embedded.read_photographs,
}


def make_sphere_pairs(source: Source, rng: np.random.Generator, parameters: Mapping[str, Any]) -> Dataset:
    x, y = synthetic.sphere_pairs(rng, **parameters)
    names = tuple(f"delta={separation:g}" for separation in parameters["separations"])
    return Dataset(source.name, contiguous(x), y, contiguous(x[:0]), y[:0], names)


def make_teacher(source: Source, rng: np.random.Generator, parameters: Mapping[str, Any]) -> Dataset:
    x_train, y_train, x_test, y_test = (contiguous(array) for array in synthetic.teacher(rng, **parameters))
    return Dataset(source.name, x_train, y_train, x_test, y_test)


FROM_FORMULAS: Mapping[str, tuple[Callable[..., Dataset], Callable[..., Any]]] = {
    "sphere_pairs": (make_sphere_pairs, synthetic.sphere_pairs),
    "teacher": (make_teacher, synthetic.teacher),
}


def parameters_of(format_name: str) -> list[str]:
    """The names of the parameters a format takes."""
    if format_name in FROM_PACKAGES:
        function = FROM_PACKAGES[format_name]
    elif format_name in FROM_FORMULAS:
        _, function = FROM_FORMULAS[format_name]
    elif format_name in FROM_TEXT:
        return list(inspect.signature(FROM_TEXT[format_name]).parameters)[2:]
    else:
        return []
    return list(inspect.signature(function).parameters)[1:]


def read_source(
    source: Source,
    parameters: Mapping[str, Any],
    paths: Paths,
    mirror: Path | None,
    rng: np.random.Generator,
    progress: bool,
) -> Dataset:
    """The whole source as a data set; its provenance names the files that were read."""
    if source.format in FROM_FORMULAS:
        make, _ = FROM_FORMULAS[source.format]
        return make(source, rng, parameters).noting(files=[])
    if source.format in FROM_PACKAGES:
        splits = FROM_PACKAGES[source.format](source, **parameters)
        records = [embedded.record(file) for file in source.embedded]
    else:
        contents, records = gather(source, paths, mirror, progress)
        if source.format in FROM_TEXT:
            return FROM_TEXT[source.format](source, contents, **parameters).noting(files=records)
        splits = FROM_FILES[source.format](source, contents)
    x_train, y_train, x_test, y_test = splits
    inputs = formats.pixels_to_inputs
    dataset = Dataset(source.name, inputs(x_train), y_train, inputs(x_test), y_test, source.classes)
    return dataset.noting(files=records)
