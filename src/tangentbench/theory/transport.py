"""Distances between distributions on the line, from samples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def wasserstein(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The Wasserstein-1 distance of two samples of one size (last axis): the mean gap of their order statistics.

    Of N draws each from one distribution it is not zero but of order N^(-1/2).
    """
    if first.shape[-1] != second.shape[-1]:
        raise ValueError(f"samples of one size are compared, not of {first.shape[-1]} and {second.shape[-1]}")
    return np.asarray(np.abs(np.sort(first, axis=-1) - np.sort(second, axis=-1)).mean(axis=-1))


def gap_along_the_others(gaps: np.ndarray) -> np.ndarray:
    """Each gap (last axis: independent repetitions) with the sign that the mean of the others has.

    The mean estimates |E gap| and, unlike the mean of absolute values, is near zero where there is no gap.
    """
    others = gaps.sum(axis=-1, keepdims=True) - gaps
    return np.asarray(gaps * np.sign(others))


def disjoint_parts(size: int, parts: int) -> Iterator[slice]:
    """`parts` stretches of equal length that do not overlap; what does not divide is left out."""
    length = size // parts
    for part in range(parts):
        yield slice(part * length, (part + 1) * length)
