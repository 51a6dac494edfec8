"""E[f(X_i) f(X_j)] for all pairs of a centred Gaussian vector, from its covariance (S, S) alone."""

from __future__ import annotations

import numpy as np

from tangentbench.kernels.fully_connected import CLOSED_FORMS, cosines


def erf_pairs(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[erf erf] and E[erf' erf'], each (S, S)."""
    variances = np.diag(covariance)
    return CLOSED_FORMS["erf"](covariance, variances, variances)


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
