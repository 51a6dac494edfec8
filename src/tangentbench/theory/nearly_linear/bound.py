"""The bound (6.6) and its parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tangentbench.theory.nearly_linear.growth import sensitivity, weight_norm
from tangentbench.theory.nearly_linear.setting import DERIVED, OutOfRange, Reading, Setting


def upsilon(kappa: int, precision: int, dimension: int, samples: int, failure_probability: float) -> float:
    """Upsilon_kappa of (6.7), the gap of a proxy of kappa d numbers of p bits; delta is the chance that it fails."""
    _check_kappa(kappa)
    for name, value in (("precision", precision), ("dim", dimension), ("samples", samples)):
        if value < 1:
            raise OutOfRange(name, value, "of at least 1")
    if not 0 < failure_probability < 1:
        raise OutOfRange("delta", failure_probability, "between 0 and 1, both excluded")
    bits = kappa * precision * dimension
    return float(np.sqrt((bits * np.log(2) - np.log(failure_probability)) / (2 * samples)))


def phi(kappa: int, depth: int, dimension: int, rho: float) -> float:
    """Phi_kappa of (6.8)."""
    _check_kappa(kappa)
    ranks = 1 + (depth - 1) * rho
    if kappa == 1:
        return float(depth * np.sqrt(dimension) + ranks)
    return float((depth - 1) * ((depth + ranks) * np.sqrt(dimension) + 2 * ranks))


def delta(
    kappa: int, dimension: int, time: ArrayLike, setting: Setting, reading: Reading = DERIVED
) -> NDArray[np.float64]:
    """Delta_kappa(t) of (6.7): Delta eps^kappa is at least the proxy's mean distance, test plus train."""
    with np.errstate(over="ignore"):
        moved = sensitivity(time, setting, reading) * weight_norm(time, setting, reading) ** (setting.depth - 1)
    return np.asarray(phi(kappa, setting.depth, dimension, setting.rho) * moved)


@dataclass(frozen=True)
class Proxy:
    """The proxy model of order `kappa`, 1 or 2: kappa d numbers of p bits."""

    kappa: int
    dimension: int
    """d, of the inputs."""
    precision: int
    """p, bits of a weight."""


@dataclass(frozen=True, eq=False)
class Bound:
    """The bound on R(t) - R^_gamma(t) and its parts at the times asked for; arrays have the shape of `time`."""

    time: NDArray[np.float64]
    upsilon: float
    phi: float
    u: NDArray[np.float64]
    v: NDArray[np.float64]
    delta: NDArray[np.float64]
    deviation: NDArray[np.float64]
    """Delta eps^kappa / gamma."""

    @property
    def gap(self) -> NDArray[np.float64]:
        return self.upsilon + self.deviation


def bound(
    time: ArrayLike,
    setting: Setting,
    proxy: Proxy,
    *,
    samples: int,
    failure_probability: float,
    gamma: float,
    reading: Reading = DERIVED,
) -> Bound:
    """Everything in (6.6) that is known before training; the test risk is at most the train margin risk plus `gap`."""
    time = np.asarray(time, dtype=float)
    if not gamma > 0:
        raise OutOfRange("gamma", gamma, "above 0")
    if not (np.isfinite(time).all() and (time >= 0).all()):
        raise OutOfRange("time", float(time.min()), "of at least 0")
    kappa, dimension = proxy.kappa, proxy.dimension
    moved = delta(kappa, dimension, time, setting, reading)
    return Bound(
        time=time,
        upsilon=upsilon(kappa, proxy.precision, dimension, samples, failure_probability),
        phi=phi(kappa, setting.depth, dimension, setting.rho),
        u=weight_norm(time, setting, reading),
        v=sensitivity(time, setting, reading),
        delta=moved,
        # a linear network deviates nowhere, also where the bound on its weights is infinite
        deviation=moved * setting.epsilon**kappa / gamma if setting.epsilon > 0 else np.zeros_like(time),
    )


def _check_kappa(kappa: int) -> None:
    if kappa not in (1, 2):
        raise OutOfRange("kappa", kappa, "1 or 2")
