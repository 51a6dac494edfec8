"""How fast the weights, and their derivative in the nonlinearity, can grow (lemma 6.7.1, appendix D.3.4 and D.4.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tangentbench.theory.nearly_linear.incomplete_gamma import upper_gamma
from tangentbench.theory.nearly_linear.setting import DERIVED, Reading, Setting


def blow_up_time(setting: Setting, reading: Reading = DERIVED) -> float:
    """When u becomes infinite: beta-bar^(2-L) / ((L - 2) s-bar), never for two layers."""
    if setting.depth == 2:
        return float("inf")
    return float(setting.beta_bar(reading) ** (2 - setting.depth) / ((setting.depth - 2) * setting.s_bar))


def weight_norm(time: ArrayLike, setting: Setting, reading: Reading = DERIVED) -> NDArray[np.float64]:
    """u_beta(t) of (6.9), at least every layer's spectral norm at time t; infinite from the blow-up time on.

    It solves du/dt = s-bar u^(L-1), u(0) = beta-bar, equations (6.38) and (D.37).
    """
    time = np.asarray(time, dtype=float)
    start, power = setting.beta_bar(reading), 2 - setting.depth
    if power == 0:
        with np.errstate(over="ignore"):
            return np.asarray(start * np.exp(setting.s_bar * time))
    left = 1.0 - time / blow_up_time(setting, reading)
    with np.errstate(divide="ignore"):
        return np.asarray(start * np.maximum(left, 0.0) ** (1.0 / power))


def primitive(u: ArrayLike, setting: Setting, reading: Reading = DERIVED) -> NDArray[np.float64]:
    """w(u) of (6.11): -(1-bar/s-bar) Gamma((2-L)/L, u^L/s-hat) - rho (s-hat/s-bar) Gamma(2/L, u^L/s-hat)."""
    depth, s_bar, s_hat = setting.depth, setting.s_bar, _scale(setting, reading)
    first = {
        "one_bar_over_s_bar": setting.one_bar / s_bar,
        "one_over_s_bar": 1.0 / s_bar,
        "one_bar_over_s_hat": setting.one_bar / s_hat,
    }[reading.w_factor]
    x = np.asarray(u, dtype=float) ** depth / s_hat
    second = setting.rho * s_hat / s_bar
    w = -first * upper_gamma((2 - depth) / depth, x) - second * upper_gamma(2 / depth, x)
    return np.asarray(_rank_factor(setting, reading) * w)


def sensitivity(time: ArrayLike, setting: Setting, reading: Reading = DERIVED) -> NDArray[np.float64]:
    """v_beta(t) of (6.10), at least the norm of every layer's derivative in the nonlinearity at time t.

    With c = 1, or c = rho where the reading keeps the factor, it solves the ODE (6.40), (D.48):

        dv/dt = v [c (1 + (L-1) rho) u^(2L-2) + s-bar (L-1) u^(L-2)] + c (L-1) u^(L-1) [1-bar + rho u^L],   v(0) = 0
    """
    depth, s_hat = setting.depth, _scale(setting, reading)
    u = weight_norm(time, setting, reading)
    start = setting.beta if reading.w_start == "beta" else setting.beta_bar(reading)
    finite = np.isfinite(u)
    inside = np.where(finite, u, start)
    grown = primitive(inside, setting, reading) - primitive(start, setting, reading)
    with np.errstate(over="ignore", invalid="ignore"):
        v = (depth - 1) / depth * s_hat ** ((2 - depth) / depth) * inside ** (depth - 1) * grown
        v = v * np.exp(inside**depth / s_hat)
    return np.where(finite, v, np.inf)


def _rank_factor(setting: Setting, reading: Reading) -> float:
    return setting.rho if reading.rank_factor == "kept" else 1.0


def _scale(setting: Setting, reading: Reading) -> float:
    """s-hat, over the factor that the reading keeps."""
    return setting.s_hat / _rank_factor(setting, reading)
