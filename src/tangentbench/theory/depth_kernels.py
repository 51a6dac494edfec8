"""Kernels of infinitely wide networks of every depth, for normalised inputs, layer by layer.

Both are functions of the inputs' correlation rho alone. With sigma_hat the dual activation and sigma_hat^(l) its l-fold
composition,

    top layer   K_L(rho) = sigma_hat^(L)(rho)                                                          (Lemma 20)
    tangent     T_L(rho) = T_(L-1)(rho) sigma_hat'(K_(L-1)(rho)) + K_L(rho),   T_0(rho) = rho

The paper's equation (7) unrolls the second line with sigma_hat' at K_h' where it has to stand at K_(h'-1): with one
hidden layer the tangent kernel is sigma_hat(rho) + rho sigma_hat'(rho).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tangentbench.theory.layer_map import LayerMap


@dataclass(frozen=True)
class DepthKernels:
    """Entries after `depth` hidden layers, of the shape of the given correlations."""

    depth: int
    top: np.ndarray
    """K_L."""
    tangent: np.ndarray | None
    """T_L over its diagonal; None where the tangent kernel was not asked for."""
    log_diagonal: float
    """log T_L(1), which grows like L log sigma_hat'(1)."""


def kernels_by_depth(layer: LayerMap, correlations: np.ndarray, *, tangent: bool) -> Iterator[DepthKernels]:
    """The kernels at depth 0, 1, 2, ... without end.

    The tangent kernel is carried relative to its diagonal D_L = D_(L-1) sigma_hat'(1) + 1, so nothing overflows:
    T_L/D_L = w T_(L-1)/D_(L-1) sigma_hat'(K_(L-1))/sigma_hat'(1) + (1 - w) K_L with w = 1 - 1/D_L.
    """
    top = np.array(correlations, dtype=float)
    ratio = top.copy() if tangent else None
    log_slope = np.log(layer.slope_at_one) if tangent else 0.0
    log_diagonal, depth = 0.0, 0
    while True:
        yield DepthKernels(depth, top, ratio, log_diagonal)
        below, top = top, layer.value(top)
        depth += 1
        if ratio is not None:
            log_diagonal = float(np.logaddexp(log_diagonal + log_slope, 0.0))
            new = np.exp(-log_diagonal)
            ratio = (1.0 - new) * ratio * layer.slope(below) * np.exp(-log_slope) + new * top


def kernel_at(layer: LayerMap, correlations: np.ndarray, depth: int, *, tangent: bool) -> DepthKernels:
    for kernels in kernels_by_depth(layer, correlations, tangent=tangent):
        if kernels.depth == depth:
            return kernels
    raise AssertionError("depths never end")


def tangent_diagonal(slope_at_one: float, depth: int) -> float:
    """(s^(L+1) - 1) / (s - 1) with s = sigma_hat'(1), from the proof of Theorem 27; L + 1 at s = 1."""
    if np.isclose(slope_at_one, 1.0, rtol=1e-12):
        return float(depth + 1)
    return float((slope_at_one ** (depth + 1) - 1.0) / (slope_at_one - 1.0))


def square_matrix(upper: np.ndarray, size: int) -> np.ndarray:
    """The symmetric matrix (size, size) with unit diagonal whose entries above it are `upper`, row by row."""
    matrix = np.eye(size)
    rows, columns = np.triu_indices(size, 1)
    matrix[rows, columns] = upper
    matrix[columns, rows] = upper
    return matrix


def upper_entries(matrix: np.ndarray) -> np.ndarray:
    """The entries above the diagonal, row by row: (n, n) to (n (n - 1) / 2,)."""
    return np.asarray(matrix[np.triu_indices(len(matrix), 1)])


def unit_correlations(inputs: np.ndarray) -> np.ndarray:
    """Correlations (n, n) of the inputs (n, ...) flattened and scaled to length 1, in float64."""
    rows = np.asarray(inputs, dtype=np.float64).reshape(len(inputs), -1)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.clip(rows @ rows.T, -1.0, 1.0))
