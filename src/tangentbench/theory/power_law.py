"""y = c x^a from measured points, and how far the line can be trusted where nothing was measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class PowerLaw:
    """Least squares on the logarithms of `count` points."""

    exponent: float
    factor: float
    exponent_error: float
    """Half the width of the exponent's 95 % interval; infinite with two points."""
    residual: float
    """Standard deviation of log y around the line."""
    mean_log: float
    spread: float
    """Sum of (log x - mean)^2."""
    count: int

    def at(self, x: float) -> float:
        return float(self.factor * x**self.exponent)

    def interval(self, x: float) -> tuple[float, float]:
        """Where a measurement at x would lie with 95 % confidence, if the law goes on and errors are log-normal."""
        if self.count < 3:
            return 0.0, float("inf")
        error = self.residual * np.sqrt(1 + 1 / self.count + (np.log(x) - self.mean_log) ** 2 / self.spread)
        width = float(stats.t.ppf(0.5 + CONFIDENCE / 2, self.count - 2) * error)
        with np.errstate(over="ignore"):
            return self.at(x) * float(np.exp(-width)), self.at(x) * float(np.exp(width))


def fit_power_law(x: ArrayLike, y: ArrayLike) -> PowerLaw:
    """Needs at least two different x; all numbers above zero."""
    log_x, log_y = np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float))
    spread = float(((log_x - log_x.mean()) ** 2).sum())
    exponent = float(((log_x - log_x.mean()) * (log_y - log_y.mean())).sum() / spread)
    start = float(log_y.mean() - exponent * log_x.mean())
    count = len(log_x)
    residual, error = 0.0, float("inf")
    if count > 2:
        residual = float(np.sqrt(((log_y - start - exponent * log_x) ** 2).sum() / (count - 2)))
        error = float(stats.t.ppf(0.5 + CONFIDENCE / 2, count - 2)) * residual / np.sqrt(spread)
    return PowerLaw(exponent, float(np.exp(start)), float(error), residual, float(log_x.mean()), spread, count)
