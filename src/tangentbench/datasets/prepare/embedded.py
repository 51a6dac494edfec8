"""Data that lie inside installed packages: no network, and no import of the packages either."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tangentbench.datasets.prepare.checksums import check_file
from tangentbench.datasets.prepare.formats import Pixels, read_digits_csv
from tangentbench.datasets.prepare.sources import EmbeddedFile, Source
from tangentbench.datasets.prepare.unpack import read_gz
from tangentbench.errors import DataMissing


def embedded_path(file: EmbeddedFile) -> Path | None:
    """Where the file is on this machine, or None if its package is not installed or does not carry it."""
    spec = importlib.util.find_spec(file.module)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = Path(folder) / file.file
        if path.is_file():
            return path
    return None


def checked_path(file: EmbeddedFile) -> Path:
    path = embedded_path(file)
    if path is None:
        raise DataMissing(
            f"{file.file} is not in an installed {file.distribution}: install the versions of requirements.lock "
            "with `make setup`"
        )
    check_file(
        path, file.published, f"install {file.distribution} in the version of requirements.lock with `make setup`"
    )
    return path


def record(file: EmbeddedFile) -> dict[str, Any]:
    return {
        "file": Path(file.file).name,
        "origin": f"{file.distribution} {importlib.metadata.version(file.distribution)}: {file.file}",
        "bytes": file.published.bytes,
        "sha256": file.published.sum,
    }


def read_digits(source: Source, train_per_class: int, test_per_class: int) -> tuple[Pixels, Any, Pixels, Any]:
    """The digits of the CSV split in every class: the first `train_per_class` train, the last `test_per_class` test.

    Returns images (n, 28, 28, 1), labels (n,) of train and of test. The classes take turns, so that any first part of
    a split is balanced.
    """
    (file,) = source.embedded
    path = checked_path(file)
    images, labels = read_digits_csv(read_gz(path, file.unpacked_bytes or 0), str(path))
    members = [np.flatnonzero(labels == label) for label in range(len(source.classes))]
    smallest = min(map(len, members))
    if train_per_class + test_per_class > smallest:
        raise ValueError(f"{train_per_class} + {test_per_class} digits per class asked for, there are {smallest}")
    train = taking_turns([where[:train_per_class] for where in members])
    test = taking_turns([where[len(where) - test_per_class :] for where in members])
    return images[train], labels[train], images[test], labels[test]


def taking_turns(groups: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Equally long groups merged: the first of each, then the second of each, and so on."""
    return np.stack(groups, axis=1).ravel()


def read_photographs(
    source: Source,
    side: int,
    stride: int,
    contrast: float,
    train_fraction: float,
    train_per_class: int,
    test_per_class: int,
) -> tuple[Pixels, Any, Pixels, Any]:
    """Square colour patches of every photograph, one class a photograph.

    The columns left of `train_fraction` of the width give the training patches, those right of it the test patches: no
    pixel is in both. Returns patches (n, side, side, 3), labels (n,) of train and of test; the classes take turns.
    """
    train, test = [], []
    for file in source.embedded:
        photograph = decode(checked_path(file))
        cut = round(photograph.shape[1] * train_fraction)
        grid = (side, stride, contrast)
        train.append(patches(photograph[:, :cut], *grid, train_per_class, f"the left part of {file.class_name}"))
        test.append(patches(photograph[:, cut:], *grid, test_per_class, f"the right part of {file.class_name}"))
    labels = np.array([source.classes.index(str(file.class_name)) for file in source.embedded], np.int64)
    return (
        np.stack(train, axis=1).reshape(-1, side, side, 3),
        np.tile(labels, train_per_class),
        np.stack(test, axis=1).reshape(-1, side, side, 3),
        np.tile(labels, test_per_class),
    )


def decode(path: Path) -> Pixels:
    """An image file as (height, width, 3) bytes."""
    from PIL import Image

    with Image.open(io.BytesIO(path.read_bytes())) as image:
        return np.asarray(image.convert("RGB"), dtype=np.uint8)


def patches(region: Pixels, side: int, stride: int, contrast: float, count: int, what: str) -> Pixels:
    """`count` patches (count, side, side, 3) spread evenly over the grid of `stride` pixels in `region` (h, w, 3).

    Patches with less than `contrast`, the standard deviation of a channel over the patch in units of its range, are
    passed over: black margins and empty sky give equal patches, and with them a kernel matrix without an inverse.
    """
    if min(region.shape[:2]) < side:
        raise ValueError(f"{what} is {region.shape[1]}x{region.shape[0]} pixels, too small for patches of {side}")
    windows = np.lib.stride_tricks.sliding_window_view(region, (side, side), axis=(0, 1))[::stride, ::stride]
    places = np.argwhere(contrasts(region, side)[::stride, ::stride] >= contrast)
    if count > len(places):
        raise ValueError(f"{count} patches asked for, {what} has {len(places)}: lower the count, stride or contrast")
    rows, columns = places[np.linspace(0, len(places) - 1, count).round().astype(int)].T
    return np.ascontiguousarray(windows[rows, columns].transpose(0, 2, 3, 1))


def contrasts(region: Pixels, side: int) -> NDArray[np.float64]:
    """For every side x side window of `region` (h, w, 3) its channels' mean standard deviation, 1 being a range."""
    values = region.astype(np.int64)
    pixels = side * side
    variance = (pixels * window_sums(values**2, side) - window_sums(values, side) ** 2) / pixels**2
    return np.asarray(np.sqrt(variance).mean(axis=-1) / 255)


def window_sums(values: NDArray[np.int64], side: int) -> NDArray[np.int64]:
    """Sums over all side x side windows of (h, w, c), from one table of sums over top left corners."""
    table = np.pad(values.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0), (0, 0)))
    return np.asarray(table[side:, side:] - table[:-side, side:] - table[side:, :-side] + table[:-side, :-side])
