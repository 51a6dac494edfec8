"""Transforms of an image's shape: fewer or more pixels, grey, flat."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tangentbench.datasets.dataset import Dataset, Inputs

LUMA = np.array([0.299, 0.587, 0.114], np.float32)
"""Weights of red, green and blue in the grey value (ITU-R BT.601)."""


def downsample(dataset: Dataset, side: int) -> Dataset:
    """Average the images down to side x side: a new pixel is the mean of the area it covers."""
    height, width, _ = image_shape(dataset)
    if side > min(height, width):
        raise ValueError(f"the images are {height}x{width}: side {side} would not make them smaller")
    return resampled(dataset, side, averaging_matrix)


def upsample(dataset: Dataset, side: int) -> Dataset:
    """Interpolate the images bilinearly up to side x side; pixel centres lie at half-integers, edges are repeated."""
    height, width, _ = image_shape(dataset)
    if side < max(height, width):
        raise ValueError(f"the images are {height}x{width}: side {side} would not make them larger")
    return resampled(dataset, side, interpolation_matrix)


def grey(dataset: Dataset) -> Dataset:
    """Weigh red, green and blue into one channel (n, h, w, 1); grey images stay as they are."""
    *_, channels = image_shape(dataset)
    if channels == 1:
        return dataset
    if channels != len(LUMA):
        raise ValueError(f"the images have {channels} channels: grey takes three")
    return dataset.with_inputs((dataset.x_train @ LUMA)[..., None], (dataset.x_test @ LUMA)[..., None])


def flatten(dataset: Dataset) -> Dataset:
    """Images (n, h, w, c) as vectors (n, h * w * c), row by row."""
    size = int(np.prod(dataset.input_shape))
    return dataset.with_inputs(dataset.x_train.reshape(-1, size), dataset.x_test.reshape(-1, size))


def image_shape(dataset: Dataset) -> tuple[int, int, int]:
    if len(dataset.input_shape) != 3:
        raise ValueError("the inputs are vectors, not images: put this transform before flatten")
    height, width, channels = dataset.input_shape
    return height, width, channels


def resampled(dataset: Dataset, side: int, matrix: Callable[[int, int], NDArray[np.float64]]) -> Dataset:
    height, width, _ = image_shape(dataset)
    rows, columns = (matrix(old, side).astype(np.float32) for old in (height, width))
    return dataset.with_inputs(*(along_both(x, rows, columns) for x in (dataset.x_train, dataset.x_test)))


def along_both(x: Inputs, rows: Inputs, columns: Inputs) -> Inputs:
    """R x C^T for every image and channel of x (n, h, w, c)."""
    half = np.moveaxis(np.tensordot(x, rows, axes=(1, 1)), -1, 1)
    return np.moveaxis(np.tensordot(half, columns, axes=(2, 1)), -1, 2)


def averaging_matrix(old: int, new: int) -> NDArray[np.float64]:
    """(new, old): the share of each old pixel in each new one. Rows sum to 1, columns to new / old."""
    edges = np.arange(new + 1) * (old / new)
    low, high = edges[:-1, None], edges[1:, None]
    pixel = np.arange(old)[None, :]
    overlap = np.clip(np.minimum(high, pixel + 1) - np.maximum(low, pixel), 0, None)
    return np.asarray(overlap * (new / old))


def interpolation_matrix(old: int, new: int) -> NDArray[np.float64]:
    """(new, old): the weights of the two old pixels whose centres are nearest to a new one. Rows sum to 1."""
    centre = np.clip((np.arange(new) + 0.5) * (old / new) - 0.5, 0, old - 1)
    return np.asarray(np.clip(1 - np.abs(centre[:, None] - np.arange(old)[None, :]), 0, None))
