"""The two ends of a symmetric operator's spectrum, with a bound on the error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from tangentbench.gram.matrix import Float64
from tangentbench.progress import tqdm

Operator = Callable[[Float64], Float64]


@dataclass(frozen=True)
class Ritz:
    """An approximate eigenpair: some eigenvalue lies within `residual` = |A v - value v| of `value`, |v| = 1."""

    value: float
    vector: Float64
    residual: float


def ritz(operator: Operator, vector: Float64) -> Ritz:
    """The best value for a vector (its Rayleigh quotient) and the residual, both measured."""
    vector = vector / np.linalg.norm(vector)
    image = operator(vector)
    value = float(vector @ image)
    return Ritz(value, vector, float(np.linalg.norm(image - value * vector)))


def extremes(
    operator: Operator,
    count: int,
    *,
    ends: tuple[int, ...] = (0, -1),
    steps: int = 300,
    tolerance: float = 1e-10,
    seed: int = 0,
    progress: bool = True,
) -> list[Ritz]:
    """The eigenpairs at `ends` (0 the smallest, -1 the largest) of a symmetric operator on vectors (n,).

    Lanczos with every vector kept and reorthogonalised twice (n times `steps` numbers), until the residuals are below
    `tolerance` times the largest value or the steps are used up. A Ritz value never leaves the spectrum's range, so the
    smallest is an upper bound of the smallest eigenvalue and the largest a lower bound of the largest.
    """
    steps = min(steps, count)
    basis = np.zeros((steps, count))
    alpha, beta = np.zeros(steps), np.zeros(steps)
    basis[0] = np.random.default_rng(seed).normal(size=count)
    basis[0] /= np.linalg.norm(basis[0])
    weights = np.ones((1, len(ends)))
    for k in tqdm(range(steps), desc="Lanczos", disable=None if progress else True):
        w = operator(basis[k])
        alpha[k] = basis[k] @ w
        for _ in range(2):
            w = w - basis[: k + 1].T @ (basis[: k + 1] @ w)
        beta[k] = np.linalg.norm(w)
        values, vectors = scipy.linalg.eigh_tridiagonal(alpha[: k + 1], beta[:k])
        weights = np.asarray(vectors[:, list(ends)], np.float64)
        bounds = beta[k] * np.abs(weights[-1])
        if k + 1 == steps or (bounds <= tolerance * np.abs(values).max()).all():
            break
        basis[k + 1] = w / beta[k]
    return [ritz(operator, basis[: len(weights)].T @ weights[:, e]) for e in range(len(ends))]
