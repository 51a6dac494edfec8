"""When a linear network has learnt, and what the bound is then as the initial weights vanish (6.5.3, D.4.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tangentbench.theory.nearly_linear.bound import phi
from tangentbench.theory.nearly_linear.setting import DERIVED, OutOfRange, Reading, Setting


def learning_time(fraction: float, beta: float, s: float, depth: int) -> float:
    """t*_alpha(beta) of (6.15), (D.57): when an aligned linear network has learnt `fraction` alpha of the signal s.

    It needs beta^L / s < alpha < 1: the network starts with the former.
    """
    started = beta**depth / s
    if not started < fraction < 1:
        raise OutOfRange("alpha", fraction, f"above {started:.3g} (learnt at the start: beta^L/s) and below 1")
    if depth == 2:
        return float(np.log(fraction * (s - beta**2) / ((1 - fraction) * beta**2)) / (2 * s))

    def antiderivative(learnt: float) -> float:
        """Of 1 / (u^(L-1) (s - u^L)) in u, at u^L = s learnt."""
        series = special.hyp2f1(1.0, 2 / depth - 1, 2 / depth, learnt)
        return float((s * learnt) ** (2 / depth - 1) / (s * (2 - depth)) * series)

    return antiderivative(fraction) - antiderivative(started)


def linear_weight_norm(time: ArrayLike, beta: float, s: float) -> NDArray[np.float64]:
    """u-bar(t), the layers' norm in an aligned two-layer linear network, which solves (6.12).

    (6.14) prints the right side of u-bar^2 as u-bar.
    """
    decay = np.exp(-2 * s * np.asarray(time, dtype=float))
    return np.asarray(np.sqrt(s / (1 + (s / beta**2 - 1) * decay)))


def vanishing_beta_deviation(
    kappa: int, dimension: int, setting: Setting, q: float, r: float, reading: Reading = DERIVED
) -> float:
    """(6.19): limit beta -> 0 of Delta eps^kappa/gamma at t*_alpha, two layers, alpha = r beta^2/s, gamma = alpha/q.

    Where v starts at w(beta-bar), the logarithm is that of r^(s-bar/s) alone: the quotient under the printed one is
    what starting at w(beta) adds.
    """
    if setting.depth != 2:
        raise OutOfRange("depth", setting.depth, "2: the limit (6.19) is for two layers")
    limit = Setting(2, setting.epsilon, np.finfo(float).tiny, setting.rho, setting.s)
    ratio = limit.s_bar_at(limit.rho, reading) / limit.s_bar
    growth = limit.s_bar / limit.s
    logarithm = growth * np.log(r) + (2 * np.log(ratio) if reading.w_start == "beta" else 0.0)
    kept = setting.rho if reading.rank_factor == "kept" else 1.0
    factor = kept * limit.s * ratio**2 / (2 * limit.s_bar) * q * r ** (growth - 1)
    return float(factor * phi(kappa, 2, dimension, setting.rho) * logarithm * setting.epsilon**kappa)
