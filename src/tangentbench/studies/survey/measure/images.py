"""Images of any side whose smaller training sets are parts of the larger ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tangentbench.datasets import Dataset
from tangentbench.datasets.choice import channel_moments, choose_indices
from tangentbench.datasets.dataset import Inputs
from tangentbench.datasets.resampling import downsample, upsample


@dataclass(frozen=True, eq=False)
class Images:
    """Training and test images (n, side, side, channels), standardised, with labels (n,); classes take turns."""

    x_train: Inputs
    y_train: NDArray[np.int64]
    x_test: Inputs
    y_test: NDArray[np.int64]
    classes: int

    def first(self, train: int, test: int) -> Images:
        """With only the first training and test images."""
        return replace(
            self,
            x_train=self.x_train[:train],
            y_train=self.y_train[:train],
            x_test=self.x_test[:test],
            y_test=self.y_test[:test],
        )


def prepared(dataset: Dataset, *, train: int, test: int, side: int, seed: int) -> Images:
    """As many images of each class, or one more of some, averaged down or interpolated up to `side`."""
    classes = len(dataset.classes)
    kept = [
        in_turns(dataset, split, count, np.random.default_rng([seed, number]))
        for number, (split, count) in enumerate((("train", train), ("test", test)))
    ]
    mean, spread = channel_moments(dataset.x_train)
    few = Dataset(
        dataset.name,
        ((dataset.x_train[kept[0]] - mean) / spread).astype(np.float32),
        dataset.y_train[kept[0]],
        ((dataset.x_test[kept[1]] - mean) / spread).astype(np.float32),
        dataset.y_test[kept[1]],
        dataset.classes,
    )
    own = min(few.input_shape[:2])
    few = few if side == own else downsample(few, side) if side < own else upsample(few, side)
    return Images(few.x_train, few.y_train.astype(np.int64), few.x_test, few.y_test.astype(np.int64), classes)


def in_turns(dataset: Dataset, split: str, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Places of `count` images, one of each class after the other."""
    classes = len(dataset.classes)
    labels = dataset.y_train if split == "train" else dataset.y_test
    places = choose_indices(dataset, split, -(-count // classes) * classes, "balanced", rng)
    by_class = [rng.permutation(places[labels[places] == label]) for label in range(classes)]
    return np.stack(by_class, axis=1).ravel()[:count]
