"""Whether a factor in float32 is enough: the refinement in float64 must converge, and fast.

With a factor whose relative error is about n eps, refinement gains a factor of about 1 / (eps condition) a step. So the
condition number decides; it is estimated from the factor itself at the price of a few substitutions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tangentbench.gram.matrix import Float64, Matrix
from tangentbench.solvers.cholesky import Cholesky

Operator = Callable[[Float64], Float64]

FLOAT32_FROM = 4_000
"""Inputs from which a factor in float32 is tried first; below, float64 takes seconds."""

WELL_CONDITIONED = 0.1
"""Largest eps times condition number for which float32 is kept: each refinement then gains a digit or more."""

REFINEMENTS = 30
"""What a float32 factor is given to reach the tolerance before float64 is taken."""

POWER_STEPS = 8


def estimated_condition(matrix: Matrix, ridge: float, factor: Cholesky, seed: int = 0) -> float:
    """The condition number of K + ridge I, from below: power iterations on the matrix and on the factor's inverse."""
    start = np.random.default_rng(seed).normal(size=(matrix.shape[0], 1))
    largest = _largest(lambda v: matrix.matmul(v) + ridge * v, start)
    return largest * _largest(factor.solve, start)


def is_enough(condition: float) -> bool:
    """Whether float32 can be refined at this condition number."""
    return bool(np.isfinite(condition)) and condition * float(np.finfo(np.float32).eps) <= WELL_CONDITIONED


def _largest(apply: Operator, vector: Float64) -> float:
    """The largest eigenvalue of a positive operator as the last Rayleigh quotient of a power iteration."""
    quotient = 0.0
    for _ in range(POWER_STEPS):
        vector = vector / np.linalg.norm(vector)
        image = apply(vector)
        quotient = float((vector * image).sum())
        vector = image
    return quotient
