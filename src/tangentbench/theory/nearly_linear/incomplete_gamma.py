"""The upper incomplete gamma function at any real order, which scipy has for positive orders only."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

_SPLIT = 1.5
"""Below it the recurrence loses nothing; above it the continued fraction converges."""
_TERMS = 120
"""Of the continued fraction: enough for double precision from _SPLIT on."""


def upper_gamma(order: float, x: ArrayLike) -> NDArray[np.float64]:
    """Gamma(order, x) = integral over t from x to infinity of t^(order-1) e^(-t), elementwise for x > 0.

    Example:
        upper_gamma(0.0, 1.0)    # 0.21938..., the exponential integral E1(1)
    """
    x = np.asarray(x, dtype=float)
    if order > 0:
        return np.asarray(special.gammaincc(order, x) * special.gamma(order))
    small = x < _SPLIT
    return np.where(
        small, _by_recurrence(order, np.where(small, x, 1.0)), _by_fraction(order, np.where(small, _SPLIT, x))
    )


def _by_recurrence(order: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Down from an order in (0, 1], or from E1 at a whole order: a Gamma(a, x) = Gamma(a + 1, x) - x^a e^(-x)."""
    steps = int(np.ceil(-order)) if order == np.floor(order) else int(np.floor(-order)) + 1
    top = order + steps
    value = special.exp1(x) if top == 0 else special.gammaincc(top, x) * special.gamma(top)
    for down in range(1, steps + 1):
        lower = top - down
        value = (value - x**lower * np.exp(-x)) / lower
    return np.asarray(value)


def _by_fraction(order: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Legendre's continued fraction, evaluated from its end."""
    tail = np.zeros_like(x)
    for term in range(_TERMS, 0, -1):
        tail = term * (order - term) / (x + 2 * term + 1 - order + tail)
    return np.asarray(np.exp(-x) * x**order / (x + 1 - order + tail))
