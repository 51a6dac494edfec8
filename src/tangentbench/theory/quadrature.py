"""Expectations under one or two Gaussians, split where the integrand has a kink or a jump.

A Gauss-Hermite rule stalls at 1e-3 on a step; here the line is cut at the kinks and each piece gets Gauss-Legendre
panels, so that piecewise analytic functions reach 1e-12 whether they are smooth or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np

REACH = 16.0
"""The line is cut at plus and minus this: below 1e-44 of the mass lies beyond, also after weighting with exp(2x)."""
PANEL = 0.5
NODES = 20
INNER_PANELS = 32
INNER_NODES = 12
LAYER_STEPS = 8
"""How many widths of a smoothed kink get panels of their own, on each side (its profile is an error function)."""

Function = Callable[[np.ndarray], np.ndarray]


def gaussian_density(x: np.ndarray | float) -> np.ndarray:
    """phi(x), the density of N(0, 1)."""
    return np.asarray(np.exp(-0.5 * np.square(x)) / np.sqrt(2.0 * np.pi))


@lru_cache(maxsize=256)
def gaussian_rule(kinks: tuple[float, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights, each of shape (nodes,), with E[f(X)] = sum weights * f(nodes) for X ~ N(0, 1).

    Exact to rounding for f analytic between neighbouring `kinks`.
    """
    regular = np.arange(-REACH, REACH + PANEL / 2, PANEL)
    edges = np.unique(np.concatenate([regular, [kink for kink in kinks if abs(kink) < REACH]]))
    reference, reference_weights = np.polynomial.legendre.leggauss(NODES)
    half = np.diff(edges)[:, None] / 2
    nodes = (edges[:-1, None] + half * (1 + reference)).ravel()
    weights = (half * reference_weights).ravel() * gaussian_density(nodes)
    nodes.setflags(write=False)
    weights.setflags(write=False)
    return nodes, weights


def expectation(function: Function, kinks: Iterable[float] = ()) -> float:
    """E[f(X)] for X ~ N(0, 1).

    Example:
        expectation(lambda x: np.maximum(x, 0), kinks=(0.0,))  # 1 / sqrt(2 pi)
    """
    nodes, weights = gaussian_rule(tuple(sorted(kinks)))
    return float(weights @ function(nodes))


def pointwise(function: Callable[[float], float], points: np.ndarray | float) -> np.ndarray:
    """A scalar function at each of the points, in their shape."""
    given = np.asarray(points, dtype=float)
    return np.array([function(point) for point in given.ravel().tolist()]).reshape(given.shape)


def correlated_expectation(
    function: Function,
    correlation: float,
    kinks: tuple[float, ...] = (),
    weight: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> float:
    """E[f(X) f(Y) w(X, Z)] for standard normal X and Y = rho X + sqrt(1 - rho^2) Z with Z independent of X.

    `weight` takes x of shape (n, 1) and z of shape (n, m); it is 1 where it is not given, and only then may |rho| be 1.
    """
    if not -1.0 <= correlation <= 1.0:
        raise ValueError(f"a correlation lies between -1 and 1, not at {correlation}")
    spread = np.sqrt(1.0 - correlation**2)
    if spread == 0.0:
        if weight is not None:
            raise ValueError("a weight on the second Gaussian needs a correlation strictly between -1 and 1")
        mirrored = (*kinks, *(correlation * kink for kink in kinks))
        return expectation(lambda x: function(x) * function(correlation * x), mirrored)
    nodes, weights = gaussian_rule(outer_breakpoints(correlation, spread, kinks))
    inner, inner_weights = conditional_rule(nodes, correlation, spread, kinks)
    values = function(correlation * nodes[:, None] + spread * inner) * inner_weights
    if weight is not None:
        values = values * weight(nodes[:, None], inner)
    return float(weights @ (function(nodes) * values.sum(axis=1)))


def outer_breakpoints(correlation: float, spread: float, kinks: tuple[float, ...]) -> tuple[float, ...]:
    """Where E[f(Y) | X = x] f(x) bends: at f's kinks, and in a layer of width spread/|rho| around kink/rho."""
    points = set(kinks)
    if correlation != 0.0:
        steps = np.arange(-LAYER_STEPS, LAYER_STEPS + 1) * spread / abs(correlation)
        for kink in kinks:
            points.update((kink / correlation + steps).tolist())
    return tuple(sorted(points))


def conditional_rule(
    nodes: np.ndarray, correlation: float, spread: float, kinks: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for Z, of shape (len(nodes), m): for each x split where Y = rho x + spread z meets a kink."""
    splits = [np.clip((kink - correlation * nodes) / spread, -REACH, REACH) for kink in sorted(kinks)]
    edges = np.stack([np.full_like(nodes, -REACH), *splits, np.full_like(nodes, REACH)], axis=1)
    reference, reference_weights = np.polynomial.legendre.leggauss(INNER_NODES)
    within = ((np.arange(INNER_PANELS)[:, None] + (1 + reference) / 2) / INNER_PANELS).ravel()
    within_weights = np.tile(reference_weights / (2 * INNER_PANELS), INNER_PANELS)
    lengths = np.diff(edges, axis=1)[:, :, None]
    inner = (edges[:, :-1, None] + lengths * within).reshape(len(nodes), -1)
    weights = (lengths * within_weights).reshape(len(nodes), -1) * gaussian_density(inner)
    return inner, weights
