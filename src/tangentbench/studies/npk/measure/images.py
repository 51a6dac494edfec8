"""Images as the networks of this study take them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tangentbench.datasets import Dataset
from tangentbench.datasets.selection import some_of_each
from tangentbench.training.batches import Examples


def split(dataset: Dataset, train: int | None, test: int | None, seed: int) -> tuple[Examples, Examples]:
    """Training and test examples; a number asks for that many, equally many of every class, None for all."""
    return (
        _chosen(dataset.x_train, dataset.y_train, dataset, train, seed, "training"),
        _chosen(dataset.x_test, dataset.y_test, dataset, test, seed + 1, "test"),
    )


def some_images(dataset: Dataset, per_class: int, seed: int) -> tuple[Tensor, Tensor]:
    """`per_class` training images of every class and their labels."""
    few = _chosen(dataset.x_train, dataset.y_train, dataset, per_class * len(dataset.classes), seed, "training")
    return few.inputs, few.labels


def with_signs(examples: Examples) -> Examples:
    """Two classes as targets -1 and +1, shape (n, 1)."""
    return Examples(examples.inputs, (2.0 * examples.labels.to(examples.inputs.dtype) - 1.0)[:, None])


def _chosen(
    inputs: np.ndarray, labels: np.ndarray, dataset: Dataset, count: int | None, seed: int, name: str
) -> Examples:
    if count is None or count >= len(inputs):
        return Examples(torch.from_numpy(inputs), torch.from_numpy(labels))
    classes = len(dataset.classes)
    indices = some_of_each(labels, classes, count // classes, np.random.default_rng(seed), name)
    return Examples(torch.from_numpy(inputs[indices]), torch.from_numpy(labels[indices]))
