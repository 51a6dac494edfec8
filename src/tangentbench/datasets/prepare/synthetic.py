"""Data that are computed: pairs of unit vectors, and a teacher network's answers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def sphere_pairs(
    rng: np.random.Generator, dimension: int, pairs: int, separations: Sequence[float]
) -> tuple[Array, NDArray[np.int64]]:
    """Pairs of unit vectors x, y with <x, y> = 1 - delta, uniformly placed on the sphere.

    Returns the vectors (2 * pairs * len(separations), dimension), rows 2k and 2k+1 being pair k, and for every row the
    position of its delta in `separations`.
    """
    deltas = np.repeat(np.asarray(separations, np.float64), pairs)
    first = unit(rng.standard_normal((len(deltas), dimension)))
    other = rng.standard_normal((len(deltas), dimension))
    across = unit(other - np.sum(other * first, axis=1, keepdims=True) * first)
    cosine = 1 - deltas[:, None]
    # sqrt(delta (2 - delta)) instead of sqrt(1 - cosine^2): no digits are lost for a small delta
    second = cosine * first + np.sqrt(deltas * (2 - deltas))[:, None] * across
    return np.stack([first, second], axis=1).reshape(-1, dimension), np.repeat(np.arange(len(separations)), 2 * pairs)


def unit(vectors: Array) -> Array:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def teacher_weights(rng: np.random.Generator, widths: Sequence[int], weights: str) -> list[Array]:
    """Gaussian matrices W_l of shape (n_l, n_(l-1) + 1); the last column multiplies the constant input beta.

    The thesis says only "random Gaussian weights": `fan_in` gives them standard deviation 1/sqrt(n_(l-1)), `unit` 1.
    """
    power = {"fan_in": -0.5, "unit": 0.0}[weights]
    return [
        fan_in**power * rng.standard_normal((fan_out, fan_in + 1)) for fan_in, fan_out in itertools.pairwise(widths)
    ]


def teacher_outputs(inputs: Array, weights: Sequence[Array], bias: float) -> Array:
    """The ReLU network of thesis section 5.2: Z_l = W_l (sigma(Z_(l-1)), beta). Inputs (n, n_0) give Z_L (n, n_L)."""
    signal = inputs
    for number, matrix in enumerate(weights):
        if number:
            signal = np.maximum(signal, 0)
        signal = signal @ matrix[:, :-1].T + bias * matrix[:, -1]
    return signal


def teacher(
    rng: np.random.Generator, widths: Sequence[int], train: int, test: int, bias: float, weights: str
) -> tuple[Array, Array, Array, Array]:
    """Standard Gaussian inputs and the teacher's outputs on them: x_train, y_train, x_test, y_test."""
    matrices = teacher_weights(rng, widths, weights)
    x_train = rng.standard_normal((train, widths[0]))
    x_test = rng.standard_normal((test, widths[0]))
    return x_train, teacher_outputs(x_train, matrices, bias), x_test, teacher_outputs(x_test, matrices, bias)
