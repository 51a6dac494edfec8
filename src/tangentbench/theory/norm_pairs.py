"""Two inputs of different norms through layers of NormReLU: both squared norms and the correlation, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr, owens_t

from tangentbench.theory.activations import norm_relu_scale, norm_relu_shift
from tangentbench.theory.norm_propagation import norm_relu_propagation
from tangentbench.theory.quadrature import gaussian_density


def both_above(h: np.ndarray, k: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """P(X > h, Y > k) of standard normals with correlation |rho| < 1, by Owen's T function; h and k of one sign."""
    spread = np.sqrt(1.0 - rho**2)
    towards_k = owens_t(h, (k - rho * h) / (h * spread))
    towards_h = owens_t(k, (h - rho * k) / (k * spread))
    return np.asarray(0.5 * (ndtr(-h) + ndtr(-k)) - towards_k - towards_h)


def positive_parts(h: np.ndarray, k: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """E[(X - h)_+ (Y - k)_+]: the moments of a Gaussian pair truncated at h and k, neither of them 0."""
    spread = np.sqrt(1.0 - rho**2)
    beside_h = gaussian_density(h) * ndtr((rho * h - k) / spread)
    beside_k = gaussian_density(k) * ndtr((rho * k - h) / spread)
    density = gaussian_density(h) * gaussian_density((k - rho * h) / spread) / spread
    return np.asarray((h * k + rho) * both_above(h, k, rho) - k * beside_h - h * beside_k + spread**2 * density)


def norm_relu_pair(c: float, first: np.ndarray, second: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """E[sigma(sqrt(first) X) sigma(sqrt(second) Y)] for NormReLU_c with c != 0, pairs of correlation |rho| < 1."""
    shift, scale = norm_relu_shift(c), norm_relu_scale(c)
    roots = np.sqrt(first), np.sqrt(second)
    h, k = c / roots[0], c / roots[1]
    means = [root * gaussian_density(c / root) - c * ndtr(-c / root) for root in roots]
    product = roots[0] * roots[1] * positive_parts(h, k, rho)
    return np.asarray(scale**2 * (product + shift * (means[0] + means[1]) + shift**2))


def norm_relu_paths(
    c: float, first: np.ndarray, second: np.ndarray, rho: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Squared norms and correlation of each pair after 0, 1, 2, ... layers, without end."""
    propagation = norm_relu_propagation(c)
    while True:
        yield first, second, rho
        product = norm_relu_pair(c, first, second, rho)
        first, second = propagation.transfer(first), propagation.transfer(second)
        rho = product / np.sqrt(first * second)
