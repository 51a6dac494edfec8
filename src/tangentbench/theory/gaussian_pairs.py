"""E[f(a) f(b)] and E[f'(a) f'(b)] in closed form, for centred Gaussian pairs (a, b) of any covariance.

A `Dual` takes the covariances (n, m) of n variables a with m variables b, the variances (n,) of the first and (m,) of
the second, and returns both expectations, each (n, m).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Dual = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def cosines(sigma: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Correlations (clipped to 1 against rounding, 0 where a variance is 0) and the products of standard deviations."""
    roots = np.sqrt(rows)[:, None] * np.sqrt(columns)[None, :]
    cosine = np.divide(sigma, roots, out=np.zeros_like(sigma), where=roots > 0)
    nearly = 1 - np.abs(cosine) < 8 * np.finfo(np.float64).eps
    return np.where(nearly, np.sign(cosine), cosine), roots


def leaky_relu_dual(slope: float) -> Dual:
    """max(x, 0) + slope min(x, 0): a mixture of the arc-cosine kernels at angle theta and at pi - theta."""

    def dual(sigma: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cosine, roots = cosines(sigma, rows, columns)
        angle = np.arccos(cosine)
        sine = np.sqrt((1 - cosine) * (1 + cosine))
        bend = (1 - slope) ** 2 / (2 * np.pi)
        k1 = slope * sigma + bend * roots * (cosine * (np.pi - angle) + sine)
        return k1, slope + bend * (np.pi - angle)

    return dual


def erf_dual(sigma: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    product = (1 + 2 * rows)[:, None] * (1 + 2 * columns)[None, :]
    ratio = np.clip(2 * sigma / np.sqrt(product), -1, 1)
    return 2 / np.pi * np.arcsin(ratio), 4 / np.pi / np.sqrt(product - 4 * sigma**2)


def identity_dual(sigma: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return sigma, np.ones_like(sigma)


CLOSED_FORMS: dict[str, Dual] = {"relu": leaky_relu_dual(0.0), "erf": erf_dual, "identity": identity_dual}


def erf_pairs(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[erf erf] and E[erf' erf'] for all pairs of a Gaussian vector with this covariance (S, S), each (S, S)."""
    variances = np.diag(covariance)
    return erf_dual(covariance, variances, variances)


def relu_pairs(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[relu relu] and E[relu' relu'], each (S, S)."""
    variances = np.diag(covariance)
    return CLOSED_FORMS["relu"](covariance, variances, variances)


def gate_pairs(covariance: np.ndarray) -> np.ndarray:
    """E[g g] of the gate g(x) = (1 + erf(x)) / 2, whose odd part has mean zero."""
    return np.asarray((1 + erf_pairs(covariance)[0]) / 4)


def correlations(covariance: np.ndarray) -> np.ndarray:
    """What layer normalisation leaves of a covariance: each variance becomes 1."""
    variances = np.diag(covariance)
    return cosines(covariance, variances, variances)[0]
