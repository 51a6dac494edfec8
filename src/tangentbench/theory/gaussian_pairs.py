"""E[f(a) f(b)] and E[f'(a) f'(b)] in closed form, for centred Gaussian pairs (a, b) of any covariance.

A `Dual` takes the covariances (n, m) of n variables a with m variables b, the variances (n,) of the first and (m,) of
the second, and returns both expectations, each (n, m).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, owens_t

from tangentbench.theory.quadrature import gaussian_density

Dual = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
PairDual = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]]
"""The same entry by entry: covariances, variances of the first and of the second, arrays that broadcast together.

The second expectation is None where the function jumps, and no tangent kernel exists.
"""

SMALLEST_VARIANCE = 1e-280
"""Stands for a variance of zero: its root, and what is divided by it, are in range."""
SMALLEST_SPREAD = 1e-160


def correlation(sigma: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Correlations (clipped to 1 against rounding, 0 where a variance is 0) and the products of standard deviations."""
    roots = np.asarray(np.sqrt(first) * np.sqrt(second))
    sigma, roots = np.broadcast_arrays(sigma, roots)
    cosine = np.divide(sigma, roots, out=np.zeros_like(roots), where=roots > 0)
    nearly = 1 - np.abs(cosine) < 8 * np.finfo(np.float64).eps
    return np.where(nearly, np.sign(cosine), cosine), roots


def cosines(sigma: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`correlation` for a matrix of covariances."""
    return correlation(sigma, rows[:, None], columns[None, :])


def leaky_relu_pair(slope: float) -> PairDual:
    """max(x, 0) + slope min(x, 0): a mixture of the arc-cosine kernels at angle theta and at pi - theta."""

    def pair(sigma: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cosine, roots = correlation(sigma, first, second)
        angle = np.arccos(cosine)
        sine = np.sqrt((1 - cosine) * (1 + cosine))
        bend = (1 - slope) ** 2 / (2 * np.pi)
        k1 = slope * sigma + bend * roots * (cosine * (np.pi - angle) + sine)
        return k1, slope + bend * (np.pi - angle)

    return pair


def erf_pair(sigma: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    product = (1 + 2 * first) * (1 + 2 * second)
    ratio = np.clip(2 * sigma / np.sqrt(product), -1, 1)
    return 2 / np.pi * np.arcsin(ratio), 4 / np.pi / np.sqrt(product - 4 * sigma**2)


def identity_pair(sigma: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return sigma, np.ones_like(sigma)


def hermite2_pair(sigma: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[a^2 b^2] = E[a^2] E[b^2] + 2 E[a b]^2, for (x^2 - 1) / sqrt(2)."""
    return sigma**2 + (first - 1) * (second - 1) / 2, 2 * np.asarray(sigma)


def exponential_pair(sigma: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    value = np.exp((first + second) / 2 + sigma)
    return value, value


def step_pair(sigma: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, None]:
    """One where x >= 0; a variable without variance is always there."""
    cosine, roots = correlation(sigma, first, second)
    alone = np.where(first > 0, 0.5, 1.0) * np.where(second > 0, 0.5, 1.0)
    return np.where(roots > 0, 0.25 + np.arcsin(cosine) / (2 * np.pi), alone), None


def both_below(h: np.ndarray, k: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """P(X < h, Y < k) of standard normals with correlation rho, by Owen's T function."""
    h, k = (np.where(one == 0, SMALLEST_SPREAD, one) for one in (h, k))
    spread = np.maximum(np.sqrt((1 - rho) * (1 + rho)), SMALLEST_SPREAD)
    with np.errstate(over="ignore"):
        one, other = (k - rho * h) / h / spread, (h - rho * k) / k / spread
    apart = np.where(np.sign(h) * np.sign(k) < 0, 0.5, 0.0)
    return np.asarray((ndtr(h) + ndtr(k)) / 2 - owens_t(h, one) - owens_t(k, other) - apart)


def _standard(
    sigma: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Correlation, its spread sqrt(1 - rho^2), and both standard deviations, none of which is zero."""
    rho, _ = correlation(sigma, first, second)
    spread = np.maximum(np.sqrt((1 - rho) * (1 + rho)), SMALLEST_SPREAD)
    return rho, spread, *(np.sqrt(np.maximum(one, SMALLEST_VARIANCE)) for one in (first, second))


def shifted_relu_pair(threshold: float, shift: float, scale: float) -> PairDual:
    """scale (max(x - threshold, 0) + shift), from the moments of two Gaussians truncated at the threshold."""

    def pair(sigma: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rho, spread, s1, s2 = _standard(sigma, first, second)
        h, k = threshold / s1, threshold / s2
        above = both_below(-h, -k, rho)
        with np.errstate(over="ignore"):
            given_h, given_k = ndtr((rho * h - k) / spread), ndtr((rho * k - h) / spread)
            together = spread / (2 * np.pi) * np.exp(-(((h - rho * k) / spread) ** 2 + k**2) / 2)
        product = (
            (rho * s1 * s2 + threshold**2) * above
            - threshold * (s1 * gaussian_density(h) * given_h + s2 * gaussian_density(k) * given_k)
            + s1 * s2 * together
        )
        means = s1 * gaussian_density(h) - threshold * ndtr(-h) + s2 * gaussian_density(k) - threshold * ndtr(-k)
        return np.asarray(scale**2 * (product + shift * means + shift**2)), np.asarray(scale**2 * above)

    return pair


def selu_pair(alpha: float, scale: float) -> PairDual:
    """scale (x, or alpha (e^x - 1) below zero): an exponential weight moves the Gaussian's mean, which leaves
    probabilities of shifted quadrants."""
    rectified = leaky_relu_pair(0.0)

    def mixed(rho: np.ndarray, spread: np.ndarray, s1: np.ndarray, s2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """E[a (e^b - 1); a > 0, b < 0] and E[e^b; a > 0, b < 0]."""
        h, k = -rho * s2, -s2
        density = gaussian_density(h) * ndtr((k - rho * h) / spread)
        tilted = density - rho * gaussian_density(k) * ndtr((rho * k - h) / spread)
        quadrant = np.exp(s2**2 / 2) * both_below(-h, k, -rho)
        first = s1 * (np.exp(s2**2 / 2) * tilted + rho * s2 * quadrant - gaussian_density(0.0) * (1 - rho) / 2)
        return first, quadrant

    def pair(sigma: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rho, spread, s1, s2 = _standard(sigma, first, second)
        positive, gates = rectified(sigma, first, second)
        assert gates is not None
        one, one_slope = mixed(rho, spread, s1, s2)
        other, other_slope = mixed(rho, spread, s2, s1)
        both = np.exp((s1**2 + s2**2) / 2 + rho * s1 * s2) * both_below(-s1 - rho * s2, -s2 - rho * s1, rho)
        single = np.exp(s1**2 / 2) * both_below(-s1, -rho * s1, rho)
        single = single + np.exp(s2**2 / 2) * both_below(-s2, -rho * s2, rho)
        negative = both - single + 0.25 + np.arcsin(rho) / (2 * np.pi)
        k1 = positive + alpha * (one + other) + alpha**2 * negative
        k0 = gates + alpha * (one_slope + other_slope) + alpha**2 * both
        return np.asarray(scale**2 * k1), np.asarray(scale**2 * k0)

    return pair


def of_matrix(pair: PairDual) -> Dual:
    """The dual of a matrix of covariances from that of its entries."""

    def dual(sigma: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        k1, k0 = pair(sigma, rows[:, None], columns[None, :])
        assert k0 is not None, "asked of functions that do not jump"
        return k1, k0

    return dual


erf_dual = of_matrix(erf_pair)
relu_dual = of_matrix(leaky_relu_pair(0.0))


def erf_pairs(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[erf erf] and E[erf' erf'] for all pairs of a Gaussian vector with this covariance (S, S), each (S, S)."""
    variances = np.diag(covariance)
    return erf_dual(covariance, variances, variances)


def relu_pairs(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[relu relu] and E[relu' relu'], each (S, S)."""
    variances = np.diag(covariance)
    return relu_dual(covariance, variances, variances)


def gate_pairs(covariance: np.ndarray) -> np.ndarray:
    """E[g g] of the gate g(x) = (1 + erf(x)) / 2, whose odd part has mean zero."""
    return np.asarray((1 + erf_pairs(covariance)[0]) / 4)


def correlations(covariance: np.ndarray) -> np.ndarray:
    """What layer normalisation leaves of a covariance: each variance becomes 1."""
    variances = np.diag(covariance)
    return cosines(covariance, variances, variances)[0]
