"""Transforms of an input's values. What is fitted is fitted on the training inputs and applied to both parts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tangentbench.datasets.dataset import Dataset, Inputs

ROWS = 4096  # examples taken to double precision at a time
DEFAULT_EPS = 1e-13
"""Between the rounding of double precision (1e-16) and the smallest real eigenvalue of MNIST (2e-11 of the largest)."""


def centre(dataset: Dataset) -> Dataset:
    """Subtract the mean training input."""
    mean = dataset.x_train.mean(axis=0, dtype=np.float64).astype(np.float32)
    return dataset.with_inputs(dataset.x_train - mean, dataset.x_test - mean)


def standardise(dataset: Dataset) -> Dataset:
    """Give every channel of images, or every coordinate of vectors, mean 0 and variance 1 over the training inputs.

    What is constant there becomes 0 and is not divided.
    """
    axes = tuple(range(dataset.x_train.ndim - 1))
    mean = dataset.x_train.mean(axis=axes, dtype=np.float64).astype(np.float32)
    spread = dataset.x_train.std(axis=axes, dtype=np.float64).astype(np.float32)
    divisor = np.where(spread > 0, spread, np.float32(1))
    facts = {"mean": mean.tolist(), "std": spread.tolist()} if dataset.x_train.ndim == 4 else {}
    return dataset.with_inputs((dataset.x_train - mean) / divisor, (dataset.x_test - mean) / divisor).noting(
        **({"standardisation": facts} if facts else {})
    )


def unit_norm(dataset: Dataset) -> Dataset:
    """Scale every input to Euclidean norm 1."""
    return dataset.with_inputs(*(normed(x) for x in (dataset.x_train, dataset.x_test)))


def normed(x: Inputs) -> Inputs:
    norms = np.sqrt(np.sum(np.square(x, dtype=np.float64), axis=tuple(range(1, x.ndim)), keepdims=True))
    if len(x) and not norms.all():
        raise ValueError(f"input {int(np.argmin(norms))} is zero and has no direction: centre or drop it first")
    return np.asarray(x / norms, dtype=np.float32)


def whiten(dataset: Dataset, centre: bool = True, eps: float = DEFAULT_EPS, basis: str = "pixels") -> Dataset:
    """Make the covariance of the training inputs the identity (thesis section 6.3: x -> Sigma^(-1/2) x).

    centre: subtract the training mean first, so that Sigma is the covariance. Without it Sigma = X X^T / m, as in the
        thesis.
    eps: eigenvalues of Sigma below eps times the largest count as zero. Their directions carry nothing of the training
        inputs, and Sigma^(-1/2) is taken as the pseudo-inverse: it maps them to zero.
    basis: `pixels` keeps coordinates and shape (the symmetric root); the covariance is then the projector on the span
        of the training inputs, which is the identity at full rank. `components` gives one coordinate for each
        direction kept, (n, rank), and the covariance is the identity at any rank.
    """
    flat_train = dataset.x_train.reshape(len(dataset.x_train), -1)
    flat_test = dataset.x_test.reshape(len(dataset.x_test), -1)
    mean = flat_train.mean(axis=0, dtype=np.float64) if centre else np.zeros(flat_train.shape[1])
    values, vectors = np.linalg.eigh(second_moment(flat_train, mean))
    if values[-1] <= 0:
        raise ValueError("the training inputs are all the same: there is nothing to whiten")
    large = values > eps * values[-1]
    scaled = vectors[:, large] / np.sqrt(values[large])
    matrix = scaled @ vectors[:, large].T if basis == "pixels" else scaled * signs(vectors[:, large])
    shape = dataset.input_shape if basis == "pixels" else (int(large.sum()),)
    whitened = [mapped(x, mean, matrix).reshape(-1, *shape) for x in (flat_train, flat_test)]
    facts = {
        "rank": int(large.sum()),
        "dimension": len(values),
        "eps": eps,
        "largest_eigenvalue": float(values[-1]),
        "smallest_eigenvalue_kept": float(values[large].min()),
    }
    return dataset.with_inputs(*whitened).noting(whitening=facts)


def signs(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """+1 or -1 for each column, so that its largest entry is positive: eigenvectors are defined up to a sign."""
    largest = np.argmax(np.abs(vectors), axis=0)
    return np.asarray(np.sign(vectors[largest, np.arange(vectors.shape[1])]))


def second_moment(x: Inputs, mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """(x - mean)^T (x - mean) / m of inputs (m, d), in double precision."""
    total = np.zeros((x.shape[1], x.shape[1]))
    for block in blocks(x, mean):
        total += block.T @ block
    return total / len(x)


def mapped(x: Inputs, mean: NDArray[np.float64], matrix: NDArray[np.float64]) -> Inputs:
    """(x - mean) matrix for inputs (m, d) and a matrix (d, k), in double precision, as float32."""
    out = np.empty((len(x), matrix.shape[1]), np.float32)
    for start, block in zip(range(0, len(x), ROWS), blocks(x, mean), strict=True):
        out[start : start + ROWS] = block @ matrix
    return out


def blocks(x: Inputs, mean: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    for start in range(0, len(x), ROWS):
        yield x[start : start + ROWS].astype(np.float64) - mean
