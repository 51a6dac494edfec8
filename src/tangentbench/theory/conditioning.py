"""The bounds of "A Deep Conditioning Treatment of Neural Networks" on correlations and condition numbers.

L counts hidden layers (real numbers are allowed where the paper writes L/2), delta is the separation of the inputs
(Assumption A: |x_i . x_j| <= 1 - delta; Assumption B: the smallest eigenvalue of their Gram matrix is at least delta),
mu the coefficient of non-linearity, n the number of inputs. Where a bound says nothing it is infinite. Bounds on a
condition number kappa are given as bounds on kappa - 1, whose digits survive where kappa is nearly 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from tangentbench.theory.layer_map import LayerMap


def separation_layers(delta: float, mu: float) -> int:
    """L_0(delta) = max(ceil(log(1/(2 delta)) / log(1 + mu/2)), 0): the layers that bring the separation up to 1/2."""
    return max(int(np.ceil(np.log(0.5 / delta) / np.log1p(mu / 2.0))), 0)


def correlation_bound(depth: ArrayLike, delta: float, mu: float) -> np.ndarray:
    """B_mu(L, delta), before Theorem 3: 1 - delta (1 + mu/2)^L up to L_0, then (1 - mu/2)^(L - L_0) / 2."""
    layers = np.asarray(depth, dtype=float)
    first = separation_layers(delta, mu)
    growing = 1.0 - delta * np.exp(np.minimum(layers, first) * np.log1p(mu / 2.0))
    decaying = 0.5 * np.exp(np.maximum(layers - first, 0.0) * np.log1p(-mu / 2.0))
    return np.asarray(np.where(layers <= first, growing, decaying))


def tangent_correlation_bound(depth: ArrayLike, delta: float, mu: float) -> np.ndarray:
    """2 B(L/2, delta) of Theorem 5, relative to the diagonal, from L = 2 L_0 on."""
    layers = np.asarray(depth, dtype=float)
    bound = 2.0 * correlation_bound(layers / 2.0, delta, mu)
    return np.asarray(np.where(layers >= 2 * separation_layers(delta, mu), bound, np.inf))


def corollary4_layers(delta: float, mu: float, n: int) -> int:
    """L_1(delta) = ceil(log n / -log(1 - mu/2)) + L_0."""
    return int(np.ceil(np.log(n) / -np.log1p(-mu / 2.0))) + separation_layers(delta, mu)


def corollary4(depth: ArrayLike, delta: float, mu: float, n: int) -> np.ndarray:
    """kappa(K_L) - 1 <= 2 n (1 - mu/2)^(L - L_1) from L_1 on, as printed."""
    return printed_bound(depth, corollary4_layers(delta, mu, n), 2.0 * n, mu, 1.0)


def corollary6_layers(delta: float, mu: float, n: int) -> int:
    """L_2(delta) = ceil(2 log(2 n) / -log(1 - mu/2)) + 2 L_0."""
    return int(np.ceil(2.0 * np.log(2.0 * n) / -np.log1p(-mu / 2.0))) + 2 * separation_layers(delta, mu)


def corollary6(depth: ArrayLike, delta: float, mu: float, n: int) -> np.ndarray:
    """kappa(T_L) - 1 <= 4 n (1 - mu/2)^(L/2 - L_2) from L_2 on, as printed."""
    return printed_bound(depth, corollary6_layers(delta, mu, n), 4.0 * n, mu, 0.5)


def printed_bound(depth: ArrayLike, start: int, factor: float, mu: float, share: float) -> np.ndarray:
    layers = np.asarray(depth, dtype=float)
    bound = factor * np.exp((share * layers - start) * np.log1p(-mu / 2.0))
    return np.asarray(np.where(layers >= start, bound, np.inf))


def corollary8(depth: ArrayLike, delta: float, mu: float, n: int) -> np.ndarray:
    """kappa(K_L) - 1 <= n/delta (1 + mu/2)^(-L) under Assumption B, at every depth."""
    return np.asarray(n / delta * np.exp(-np.asarray(depth, dtype=float) * np.log1p(mu / 2.0)))


def corollary10(depth: ArrayLike, delta: float, mu: float, n: int) -> np.ndarray:
    """kappa(T_L) - 1 <= 2 n/delta (1 + mu/2)^(-L/2) under Assumption B, from 4 L_0 on.

    The proof needs (1 - mu/2)^L_0 <= 1/2 on the way, which follows from L_0 only where delta is at most 1/4.
    """
    layers = np.asarray(depth, dtype=float)
    bound = 2.0 * n / delta * np.exp(-layers / 2.0 * np.log1p(mu / 2.0))
    return np.asarray(np.where(layers >= 4 * separation_layers(delta, mu), bound, np.inf))


def gershgorin(correlation: ArrayLike, n: int) -> np.ndarray:
    """2 (n-1) b / (1 - (n-1) b), the kappa - 1 that entries of at most b allow beside a unit diagonal.

    With b from Theorem 3 or 5 this is what the proofs of corollaries 4 and 6 have before they are rounded up.
    """
    reach = (n - 1) * np.asarray(correlation, dtype=float)
    return np.asarray(np.where(reach < 1.0, 2.0 * reach / np.where(reach < 1.0, 1.0 - reach, 1.0), np.inf))


def condition_excess(off_diagonal: np.ndarray) -> float:
    """kappa - 1 of I + E for the symmetric E (n, n), without losing the digits of a small E; infinite if singular."""
    eigenvalues = np.linalg.eigvalsh(off_diagonal)
    smallest = 1.0 + eigenvalues[0]
    return float((eigenvalues[-1] - eigenvalues[0]) / smallest) if smallest > 0.0 else float("inf")


FIXED_POINT_SEARCH_END = 1.0 - 1e-6
"""A fixed point nearer to 1 than this counts as 1."""


def fixed_point(layer: LayerMap) -> float:
    """rho_bar of Theorem 11, the smallest rho in [0, 1] with sigma_hat(rho) = rho."""

    def gain(rho: float) -> float:
        return float(layer.value(np.array([rho]))[0]) - rho

    if gain(0.0) <= 0.0:
        return 0.0
    return float(brentq(gain, 0.0, FIXED_POINT_SEARCH_END, xtol=1e-15)) if gain(FIXED_POINT_SEARCH_END) < 0.0 else 1.0


def uncentred_bound(depth: ArrayLike, delta: float, layer: LayerMap) -> np.ndarray:
    """Lemma 35: |K_L - rho_bar| <= max(1 - mu~ (1 - rho_bar)/2, sigma_hat'(rho_bar))^(L - L_0) (1 + rho_bar)/2.

    For sigma_hat(0) > 0 and rho_bar < 1, from L_0 on; the two waits that make up L_0 are added here (the lemma takes
    the longer one, which is not enough for a negative correlation that has to pass both).
    """
    layers = np.asarray(depth, dtype=float)
    rest = fixed_point(layer)
    if rest == 1.0:
        return np.full_like(layers, np.inf)
    rate = layer.nonaffinity * (1.0 - rest) / 2.0
    descent = max(int(np.ceil(np.log((1.0 - rest) / (2.0 * delta)) / np.log1p(rate))), 0)
    ascent = int(np.ceil(1.0 / layer.squares[0]))
    contraction = max(1.0 - rate, derivative_at(layer, rest))
    bound = (1.0 + rest) / 2.0 * contraction ** np.maximum(layers - descent - ascent, 0.0)
    return np.asarray(np.where(layers >= descent + ascent, bound, np.inf))


def derivative_at(layer: LayerMap, rho: float) -> float:
    """sigma_hat'(rho) inside (-1, 1) by a central difference, which an activation with jumps allows too."""
    step = 1e-5
    high, low = layer.value(np.array([rho + step, rho - step]))
    return float((high - low) / (2.0 * step))


def collapse_layers(epsilon: float, layer: LayerMap) -> float:
    """Lemma 36, for rho_bar = 1 and sigma_hat'(1) = 1: from this depth on every correlation is at least 1 - epsilon.

    L_0 = log(2/epsilon) / -log(1 - epsilon mu~/2), plus 1/sigma_hat(0) layers for negative correlations.
    """
    return float(np.log(2.0 / epsilon) / -np.log1p(-epsilon * layer.nonaffinity / 2.0) + 1.0 / layer.squares[0])


def collapse_bound(depth: ArrayLike, layer: LayerMap) -> np.ndarray:
    """The smallest epsilon that Lemma 36 gives at each depth; infinite where it gives none below 1/2."""
    # two layers for the two roundings up
    layers = np.asarray(depth, dtype=float) - 2.0
    epsilons = np.geomspace(1e-7, 0.5, 2000)
    needed = np.array([collapse_layers(epsilon, layer) for epsilon in epsilons])
    place = np.searchsorted(-needed, -layers)
    return np.asarray(np.where(place < len(epsilons), epsilons[np.minimum(place, len(epsilons) - 1)], np.inf))


@dataclass(frozen=True)
class UnequalNorms:
    """Theorem 59's constants, for inputs whose squared norms lie in its range."""

    alpha: float
    delta: float

    def layers(self, epsilon: float, mu: float) -> float:
        """L^ = 2/alpha' log(3 / min(epsilon, mu/4))."""
        return float(2.0 / self.alpha * np.log(3.0 / min(epsilon, mu / 4.0)))

    def bound(self, depth: ArrayLike, delta: float, mu: float, epsilon: float) -> np.ndarray:
        """B_(mu/2)(L - L^, delta - delta') + delta' epsilon from L^ on, for delta > delta'."""
        layers = np.asarray(depth, dtype=float) - self.layers(epsilon, mu)
        if delta <= self.delta:
            return np.full_like(layers, np.inf)
        bound = correlation_bound(np.maximum(layers, 0.0), delta - self.delta, mu / 2.0) + self.delta * epsilon
        return np.asarray(np.where(layers >= 0.0, bound, np.inf))
