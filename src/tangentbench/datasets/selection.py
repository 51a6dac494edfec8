"""Transforms that choose examples and rename their classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tangentbench.datasets.dataset import Dataset, Labels


def subset(dataset: Dataset, rng: np.random.Generator, train: int | None = None, test: int | None = None) -> Dataset:
    """Keep `train` and `test` random examples of every class, in their old order; None keeps all.

    With one seed a smaller subset is part of a larger one.
    """
    streams = rng.spawn(2)
    kept = [
        np.arange(len(y)) if count is None else some_of_each(y, len(dataset.classes), count, stream, split)
        for split, y, count, stream in (
            ("training", dataset.y_train, train, streams[0]),
            ("test", dataset.y_test, test, streams[1]),
        )
    ]
    return keep(dataset, *kept)


def some_of_each(labels: Labels, classes: int, count: int, rng: np.random.Generator, split: str) -> NDArray[np.intp]:
    chosen = []
    for label, stream in enumerate(rng.spawn(classes)):
        members = np.flatnonzero(labels == label)
        if len(members) < count:
            raise ValueError(f"{count} {split} examples per class asked for, class {label} has {len(members)}")
        chosen.append(stream.permutation(members)[:count])
    if not chosen:
        raise ValueError("a subset per class needs classes, and this data set has none")
    return np.sort(np.concatenate(chosen))


def classes(dataset: Dataset, keep: Sequence[str]) -> Dataset:
    """Keep the classes named, which get the labels 0, 1, ... in the order given."""
    return regrouped(dataset, [[name] for name in keep], tuple(keep))


def binary(dataset: Dataset, zero: Sequence[str], one: Sequence[str], names: Sequence[str] | None = None) -> Dataset:
    """Label the classes in `zero` 0 and those in `one` 1; classes in neither are dropped."""
    return regrouped(dataset, [zero, one], tuple(names or ("+".join(zero), "+".join(one))))


def regrouped(dataset: Dataset, groups: Sequence[Sequence[str]], names: tuple[str, ...]) -> Dataset:
    """Give the classes of group i the label i, and drop the examples of classes in no group."""
    dropped = -1
    label_of = np.full(len(dataset.classes), dropped, np.int64)
    for label, group in enumerate(groups):
        for name in group:
            if name not in dataset.classes:
                raise ValueError(f"there is no class '{name}' (there are: {', '.join(dataset.classes)})")
            position = dataset.classes.index(name)
            if label_of[position] != dropped:
                raise ValueError(f"the class '{name}' is named twice")
            label_of[position] = label
    new_train, new_test = label_of[dataset.y_train], label_of[dataset.y_test]
    train, test = np.flatnonzero(new_train != dropped), np.flatnonzero(new_test != dropped)
    return replace(
        dataset,
        x_train=dataset.x_train[train],
        y_train=new_train[train],
        x_test=dataset.x_test[test],
        y_test=new_test[test],
        classes=names,
    )


def keep(dataset: Dataset, train: NDArray[np.intp], test: NDArray[np.intp]) -> Dataset:
    return replace(
        dataset,
        x_train=dataset.x_train[train],
        y_train=dataset.y_train[train],
        x_test=dataset.x_test[test],
        y_test=dataset.y_test[test],
    )
