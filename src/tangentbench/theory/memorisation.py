"""The expected tangent kernel of the memorisation network at the start, and its spectrum (appendix E, eq. 15).

With sigma^2 = 1/(mu w), E[K_0]/d has ones on the diagonal and mu^(d-1) elsewhere, whatever the width.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def expected_kernel(examples: int, depth: int, gate_probability: float) -> Array:
    """E[K_0]/d of eq. (15), shape (examples, examples)."""
    kernel = np.full((examples, examples), gate_probability ** (depth - 1))
    np.fill_diagonal(kernel, 1.0)
    return kernel


def largest_eigenvalue(examples: int, depth: int, gate_probability: float) -> float:
    """rho_max = 1 + (n-1) mu^(d-1), of the vector of ones."""
    return float(1.0 + (examples - 1) * gate_probability ** (depth - 1))


def smallest_eigenvalue(depth: int, gate_probability: float) -> float:
    """rho_min = 1 - mu^(d-1), n-1 times."""
    return float(1.0 - gate_probability ** (depth - 1))


def expected_spectrum(examples: int, depth: int, gate_probability: float) -> Array:
    """All eigenvalues of E[K_0]/d in ascending order, in closed form, shape (examples,)."""
    spectrum = np.full(examples, smallest_eigenvalue(depth, gate_probability))
    spectrum[-1] = largest_eigenvalue(examples, depth, gate_probability)
    return spectrum


def cumulative_spectrum(eigenvalues: Array) -> Array:
    """The paper's e.c.d.f.: running sums of the eigenvalues in ascending order, along the last axis."""
    return np.cumsum(np.sort(eigenvalues, axis=-1), axis=-1)


def critical_weight_scale(width: int, gate_probability: float) -> float:
    """sigma = sqrt(1/(mu w)), at which the kernel's expected diagonal is d at any width."""
    return float(1.0 / np.sqrt(gate_probability * width))
