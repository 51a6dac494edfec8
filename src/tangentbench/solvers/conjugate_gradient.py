"""Preconditioned conjugate gradient for (K + ridge I) x = b with several right-hand sides, in float64.

The matrix is read once an iteration for all right-hand sides. A Cholesky factor in float32 as the preconditioner turns
this into iterative refinement; for matrices too large to factorise there is a pivoted Cholesky factor of low rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from tangentbench.errors import NotPositiveDefinite
from tangentbench.gram.matrix import Float64, Matrix
from tangentbench.progress import tqdm

Precondition = Callable[[Float64], Float64]
"""An approximation of (K + ridge I)^-1 applied to (n, m)."""

RESTART_GAIN = 0.5
"""A restart from the true residual must bring it down at least to this share, or rounding has the last word."""


@dataclass(frozen=True)
class Solution:
    """x (n, m) with the largest relative residual |b - (K + ridge I) x| / |b| of its columns, measured, not updated."""

    x: Float64
    residual: float
    iterations: int

    def reached(self, tolerance: float) -> bool:
        return self.residual <= tolerance


def conjugate_gradient(
    matrix: Matrix,
    targets: Float64,
    ridge: float,
    precondition: Precondition,
    *,
    start: Float64 | None = None,
    tolerance: float = 1e-10,
    max_iterations: int = 1000,
    progress: bool = True,
) -> Solution:
    """Solve for targets (n, m) from `start` (n, m), until every column's relative residual is below `tolerance`."""
    if float(matrix.diagonal().max()) + ridge <= 0:  # also a zero matrix, whose updates would all be 0 / 0
        what = f"the Gram matrix of {len(targets)} inputs"
        raise NotPositiveDefinite(what, float(matrix.diagonal().max()) + ridge, "its largest diagonal entry")
    norms = np.linalg.norm(targets, axis=0)
    norms[norms == 0] = 1.0
    x = np.zeros_like(targets) if start is None else start.copy()
    residuals = targets if start is None else targets - apply(matrix, ridge, x)
    error = float((np.linalg.norm(residuals, axis=0) / norms).max())
    iterations = 0
    with tqdm(desc="conjugate gradient", disable=None if progress else True, unit="iteration") as bar:
        while error > tolerance and iterations < max_iterations:
            open_columns = np.linalg.norm(residuals, axis=0) > tolerance * norms
            step, used = descend(
                matrix,
                residuals[:, open_columns],
                ridge,
                precondition,
                tolerance * norms[open_columns],
                max_iterations - iterations,
                bar,
            )
            iterations += used
            candidate = x.copy()
            candidate[:, open_columns] += step
            residuals = targets - apply(matrix, ridge, candidate)
            new_error = float((np.linalg.norm(residuals, axis=0) / norms).max())
            if new_error < error:
                x = candidate
            stalled = new_error > RESTART_GAIN * error
            error = min(error, new_error)
            if stalled:
                break
    return Solution(x, error, iterations)


def apply(matrix: Matrix, ridge: float, x: Float64) -> Float64:
    return matrix.matmul(x) + ridge * x


def descend(
    matrix: Matrix,
    targets: Float64,
    ridge: float,
    precondition: Precondition,
    goals: Float64,
    max_iterations: int,
    bar: tqdm[object],
) -> tuple[Float64, int]:
    """One run from zero until the updated residual norms are below `goals` (m,).

    The flexible (Polak-Ribiere) update keeps its pace with a preconditioner in lower precision.
    """
    x, r = np.zeros_like(targets), targets.copy()
    z = precondition(r)
    p = z.copy()
    rz = np.einsum("nm,nm->m", r, z)
    active = np.linalg.norm(r, axis=0) > goals
    iteration = 0
    while active.any() and iteration < max_iterations:
        ap = np.zeros_like(p)
        ap[:, active] = apply(matrix, ridge, p[:, active])
        curvature = np.einsum("nm,nm->m", p, ap)
        if (curvature[active] <= 0).any():
            raise NotPositiveDefinite(
                f"the Gram matrix of {len(targets)} inputs",
                float((curvature[active] / np.einsum("nm,nm->m", p, p)[active]).min()),
                "the curvature along a search direction",
            )
        length = np.where(active, rz / np.where(active, curvature, 1.0), 0.0)
        x += length * p
        before = r.copy()
        r -= length * ap
        z = precondition(r)
        new_rz = np.einsum("nm,nm->m", r, z)
        momentum = np.where(active, (new_rz - np.einsum("nm,nm->m", before, z)) / np.where(rz == 0, 1.0, rz), 0.0)
        p = z + momentum * p
        rz = new_rz
        active &= np.linalg.norm(r, axis=0) > goals
        iteration += 1
        bar.update()
        bar.set_postfix(residual=f"{np.linalg.norm(r, axis=0).max():.1e}", refresh=False)
    return x, iteration


def pivoted_cholesky(matrix: Matrix, rank: int, progress: bool = True) -> tuple[Float64, Float64]:
    """L (n, rank) and the diagonal (n,) of K - L L^T, taking the largest remaining diagonal entry as the next pivot."""
    remaining = matrix.diagonal()
    count, floor = len(remaining), np.finfo(matrix.dtype).eps * remaining.max()
    factor = np.zeros((count, rank))
    for k in tqdm(range(rank), desc="preconditioner", disable=None if progress else True):
        pivot = int(np.argmax(remaining))
        if remaining[pivot] <= floor:
            return factor[:, :k], remaining
        column = matrix.block(0, count, pivot, pivot + 1)[:, 0].astype(np.float64)
        column -= factor[:, :k] @ factor[pivot, :k]
        factor[:, k] = column / np.sqrt(remaining[pivot])
        remaining = np.maximum(remaining - factor[:, k] ** 2, 0.0)
        remaining[pivot] = 0.0
    return factor, remaining


def low_rank_preconditioner(factor: Float64, remaining: Float64, ridge: float) -> Precondition:
    """(L L^T + d I)^-1 with L from the pivoted Cholesky and d the ridge plus what L leaves of the mean diagonal."""
    largest = float((np.einsum("nr,nr->n", factor, factor) + remaining).max())
    shift = ridge + max(float(remaining.mean()), float(np.finfo(np.float64).eps) * largest)
    inner = factor.T @ factor
    inner[np.diag_indices_from(inner)] += shift
    inner_factor = scipy.linalg.cho_factor(inner)

    def precondition(r: Float64) -> Float64:
        inside = scipy.linalg.cho_solve(inner_factor, factor.T @ r)
        return np.asarray((r - factor @ inside) / shift, np.float64)

    return precondition
