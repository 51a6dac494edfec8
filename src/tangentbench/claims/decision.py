"""Whether a claim held: the measured number, its spread over seeds, and the region the claim allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from tangentbench.claims.measures import MeasureError, evaluate
from tangentbench.config import SCALES
from tangentbench.suite.catalogue import Artifact, Claim

HELD = "held"
FAILED = "failed"
NOT_TESTABLE = "not testable at this scale"
NOT_RUN = "not run"
STATES = (HELD, FAILED, NOT_TESTABLE, NOT_RUN)

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """The mean over seeds with its Student interval; a single number is its own interval."""

    mean: float
    half_width: float
    seeds: int

    @classmethod
    def of(cls, values: np.ndarray) -> Interval:
        mean = float(np.mean(values))
        if len(values) < 2:
            return cls(mean, 0.0, len(values))
        quantile = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1))
        return cls(mean, quantile * float(np.std(values, ddof=1)) / float(np.sqrt(len(values))), len(values))

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width


@dataclass(frozen=True)
class Verdict:
    """A claim, what was measured, and its state with the reason."""

    claim: Claim
    scale: str
    state: str
    reason: str
    measured: float | None = None
    half_width: float | None = None
    seeds: int = 0

    def as_record(self) -> dict[str, Any]:
        return {
            "claim": self.claim.name,
            "artifact": self.claim.artifact,
            "statement": self.claim.statement,
            "state": self.state,
            "measured": self.measured,
            "half_width": self.half_width,
            "seeds": self.seeds,
            "compare": self.claim.compare,
            "expected": list(self.claim.expected) if isinstance(self.claim.expected, tuple) else self.claim.expected,
            "tolerance": self.claim.tolerance,
            "scale": self.scale,
            "decidable_from": self.claim.scale,
            "reason": self.reason,
        }

    @classmethod
    def from_record(cls, claim: Claim, record: Mapping[str, Any]) -> Verdict:
        """The verdict on `claim` that `as_record` wrote down."""
        kept = {key: record[key] for key in ("scale", "state", "reason", "measured", "half_width", "seeds")}
        return cls(claim, **kept)


def decide(claim: Claim, artifact: Artifact, scale: str, table: pd.DataFrame | None) -> Verdict:
    """Decide one claim from the artifact's table at `scale` (None: it was not built).

    With several seeds, the 95 % interval of their mean must lie inside the allowed region to hold and outside to fail;
    one that straddles its border is not testable at this scale. For `equal` the mean must lie within the tolerance and
    the interval must be no wider than it.
    """

    def verdict(state: str, reason: str, interval: Interval | None = None) -> Verdict:
        if interval is None:
            return Verdict(claim, scale, state, reason)
        return Verdict(claim, scale, state, reason, interval.mean, interval.half_width, interval.seeds)

    if table is None:
        return verdict(NOT_RUN, f"the artifact was not built at scale {scale}")
    decidable = SCALES.index(scale) >= SCALES.index(claim.scale)
    try:
        values = evaluate(claim.measure, table)
    except MeasureError as error:
        if decidable:
            raise
        return verdict(NOT_TESTABLE, f"decidable from scale {claim.scale} on: {error}")
    if not np.isfinite(values).all():
        lost, all_seeds = int((~np.isfinite(values)).sum()), len(values)
        what = "the measured value" if all_seeds == 1 else f"the measured value of {lost} of {all_seeds} seeds"
        return verdict(FAILED if decidable else NOT_TESTABLE, f"{what} is not a finite number")
    interval = Interval.of(values)
    if not decidable:
        return verdict(NOT_TESTABLE, f"decidable from scale {claim.scale} on", interval)
    state, reason = COMPARISONS[claim.compare](interval, claim)
    return verdict(state, reason, interval)


def inside(interval: Interval, low: float, high: float) -> tuple[str, str]:
    if low <= interval.low and interval.high <= high:
        return HELD, "the measured value is within the claimed range"
    if interval.high < low or interval.low > high:
        return FAILED, "the measured value is outside the claimed range"
    return NOT_TESTABLE, "the spread over seeds is too wide to decide"


def equal(interval: Interval, claim: Claim) -> tuple[str, str]:
    expected = as_number(claim)
    low, high = expected - claim.tolerance, expected + claim.tolerance
    if low <= interval.mean <= high and interval.half_width <= max(claim.tolerance, 0.0):
        return HELD, "the measured value equals the expected one within the tolerance"
    return inside(interval, low, high)


def as_number(claim: Claim) -> float:
    assert not isinstance(claim.expected, tuple)
    return float(claim.expected)


def at_most(interval: Interval, claim: Claim) -> tuple[str, str]:
    return inside(interval, -np.inf, as_number(claim) + claim.tolerance)


def at_least(interval: Interval, claim: Claim) -> tuple[str, str]:
    return inside(interval, as_number(claim) - claim.tolerance, np.inf)


def between(interval: Interval, claim: Claim) -> tuple[str, str]:
    assert isinstance(claim.expected, tuple)
    return inside(interval, claim.expected[0] - claim.tolerance, claim.expected[1] + claim.tolerance)


COMPARISONS: dict[str, Callable[[Interval, Claim], tuple[str, str]]] = {
    "equal": equal,
    "at_most": at_most,
    "at_least": at_least,
    "between": between,
}
