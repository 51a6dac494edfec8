"""Risks of section 6.4, averaged over examples (the last axis), and the optimistic bound (D.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def misclassification_risk(labels: Array, outputs: Array) -> Array:
    """The share of examples with y f < 0."""
    return np.asarray(np.mean(labels * outputs < 0, axis=-1))


def margin_risk(labels: Array, outputs: Array, gamma: float) -> Array:
    """The share of examples with y f < gamma."""
    return np.asarray(np.mean(labels * outputs < gamma, axis=-1))


def continuous_margin_risk(labels: Array, outputs: Array, gamma: float) -> Array:
    """The mean of 1 where y f < 0, 1 - y f/gamma where it is in [0, gamma], 0 above: 1/gamma-Lipschitz in f."""
    return np.asarray(np.mean(np.clip(1.0 - labels * outputs / gamma, 0.0, 1.0), axis=-1))


def optimistic_bound(
    labels: tuple[Array, Array], network: tuple[Array, Array], proxy: tuple[Array, Array], gamma: float
) -> dict[str, Array]:
    """(D.1) with its terms measured; each pair is (train, test), outputs are (..., examples).

    Returns the train margin risk, the proxy's generalisation gap, the proxy's distance (train plus test, not yet over
    gamma) and the bound, their sum.
    """
    (y_train, y_test), (f_train, f_test), (g_train, g_test) = labels, network, proxy
    margin = margin_risk(y_train, f_train, gamma)
    gap = continuous_margin_risk(y_test, g_test, gamma) - continuous_margin_risk(y_train, g_train, gamma)
    distance = np.abs(f_test - g_test).mean(axis=-1) + np.abs(f_train - g_train).mean(axis=-1)
    return {"margin_risk": margin, "gap": gap, "distance": distance, "bound": margin + gap + distance / gamma}
