"""Which images a kernel is trained and tested on, and how their pixels are prepared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tangentbench.datasets.dataset import Dataset, Inputs
from tangentbench.datasets.selection import some_of_each
from tangentbench.errors import TangentbenchError, UnknownName

PIXELS = ("standardised", "unit_interval")
SUBSETS = ("balanced", "random")
TRAIN_STREAM, TEST_STREAM = 0, 1
ROWS = 4096  # images taken to double precision at a time

Labels = NDArray[np.int64]


class UnfitImages(TangentbenchError):
    """Numbers of images that a data set cannot give."""


@dataclass(frozen=True)
class ImageChoice:
    """How many images to train and to test on, and how they are prepared.

    side: images are averaged down to it.
    pixels: `standardised` gives each channel mean 0 and variance 1 over all of the data set's training images, also
        where only some of them are chosen; `unit_interval` leaves them in [0, 1].
    subset: `balanced` takes as many of each class, `random` any.
    subset_number: another one gives other training images.
    """

    train: int
    test: int
    side: int
    pixels: str
    subset: str
    subset_number: int = 0

    def __post_init__(self) -> None:
        if self.pixels not in PIXELS:
            raise UnknownName("way to prepare pixels", self.pixels, PIXELS)
        if self.subset not in SUBSETS:
            raise UnknownName("kind of subset", self.subset, SUBSETS)

    @property
    def slug(self) -> str:
        """The choice as a piece of a path."""
        counts = f"train{self.train}-test{self.test}-side{self.side}"
        return f"{counts}-{self.pixels}-{self.subset}{self.subset_number}"


@dataclass(frozen=True, eq=False)
class Selection:
    """Images (n, height, width, channels) to train on and to test on, with their labels (n,)."""

    x_train: Inputs
    y_train: Labels
    x_test: Inputs
    y_test: Labels
    classes: int


def select(dataset: Dataset, choice: ImageChoice, seed: int) -> Selection:
    """The chosen images: for training others for each `subset_number`, for testing the same for all."""
    kept_train, kept_test = _kept(dataset, choice, seed)
    x_train, x_test = dataset.x_train[kept_train], dataset.x_test[kept_test]
    if choice.pixels == "standardised":
        mean, spread = channel_moments(dataset.x_train)
        x_train, x_test = (x_train - mean) / spread, (x_test - mean) / spread
    x_train, x_test = average_down(x_train, choice.side), average_down(x_test, choice.side)
    y_train, y_test = dataset.y_train[kept_train].astype(np.int64), dataset.y_test[kept_test].astype(np.int64)
    return Selection(x_train, y_train, x_test, y_test, len(dataset.classes))


def with_prepared(x_train: Inputs, x_test: Inputs, dataset: Dataset, choice: ImageChoice, seed: int) -> Selection:
    """The same selection from images that `select` prepared before, with their labels."""
    kept_train, kept_test = _kept(dataset, choice, seed)
    y_train, y_test = dataset.y_train[kept_train].astype(np.int64), dataset.y_test[kept_test].astype(np.int64)
    return Selection(x_train, y_train, x_test, y_test, len(dataset.classes))


def _kept(dataset: Dataset, choice: ImageChoice, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Which training and which test images are chosen."""
    train_rng = np.random.default_rng([seed, TRAIN_STREAM, choice.subset_number])
    test_rng = np.random.default_rng([seed, TEST_STREAM])
    return (
        choose_indices(dataset, "train", choice.train, choice.subset, train_rng),
        choose_indices(dataset, "test", choice.test, choice.subset, test_rng),
    )


def choose_indices(dataset: Dataset, split: str, count: int, subset: str, rng: np.random.Generator) -> NDArray[np.intp]:
    labels = dataset.y_train if split == "train" else dataset.y_test
    if count == len(labels) or (count == 0 and split == "test"):
        return np.arange(count)
    if not 0 < count < len(labels):
        raise UnfitImages(f"{count} {split} images asked for and {dataset.name} has {len(labels)}: ask for fewer")
    if subset == "random":
        return np.sort(rng.permutation(len(labels))[:count])
    classes = len(dataset.classes)
    if count % classes:
        raise UnfitImages(f"{count} {split} images are not as many of each of {classes} classes: take a multiple")
    try:
        return some_of_each(labels, classes, count // classes, rng, split)
    except ValueError as error:
        raise UnfitImages(f"{dataset.name}: {error}") from error


def channel_moments(images: Inputs) -> tuple[Inputs, Inputs]:
    """Mean and standard deviation of every channel, (channels,); the deviation of a constant one counts as 1."""
    channels = images.shape[-1]
    total, squares = np.zeros(channels), np.zeros(channels)
    for start in range(0, len(images), ROWS):
        block = images[start : start + ROWS].reshape(-1, channels).astype(np.float64)
        total += block.sum(axis=0)
        squares += np.einsum("pc,pc->c", block, block)
    count = images.size // channels
    mean = total / count
    spread = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
    return mean.astype(np.float32), np.where(spread > 0, spread, 1.0).astype(np.float32)


def average_down(images: Inputs, side: int) -> Inputs:
    """Means over squares, (n, side, side, channels)."""
    count, height, width, channels = images.shape
    if (height, width) == (side, side):
        return images
    if side < 1 or height % side or width % side:
        raise UnfitImages(f"images of {height} x {width} cannot be averaged down to {side}: choose a divisor")
    squares = images.reshape(count, side, height // side, side, width // side, channels)
    return np.ascontiguousarray(squares.mean(axis=(2, 4)), dtype=np.float32)
