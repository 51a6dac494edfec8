"""The paper's printed numbers beside ours."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from tangentbench.claims.measures import MeasureError, evaluate
from tangentbench.suite.catalogue import Artifact, PaperValue


@dataclass(frozen=True)
class ComparisonRow:
    """One printed number and our measure of it.

    `ours` is the mean over `seeds` runs and `ours_spread` their standard deviation (None with a single run);
    `difference` is ours minus the paper's. Where `ours` is None, `reason` says why.
    """

    label: str
    unit: str
    paper: float
    paper_spread: float | None
    ours: float | None = None
    ours_spread: float | None = None
    seeds: int = 0
    reason: str = ""

    @property
    def difference(self) -> float | None:
        return None if self.ours is None else self.ours - self.paper

    def as_record(self) -> dict[str, Any]:
        return {**asdict(self), "difference": self.difference}


def compare(artifact: Artifact, table: pd.DataFrame | None) -> list[ComparisonRow]:
    """Every number the paper prints for `artifact`, with ours from `table` (None: it was not built)."""
    return [compare_value(value, table) for value in artifact.paper_values]


def compare_value(printed: PaperValue, table: pd.DataFrame | None) -> ComparisonRow:
    def row(**ours: Any) -> ComparisonRow:
        return ComparisonRow(printed.label, printed.unit, printed.value, printed.spread, **ours)

    if table is None:
        return row(reason="not built at this scale")
    if printed.measure is None:
        return row(reason="nothing in our table stands beside it")
    try:
        values = evaluate(printed.measure, table)
    except MeasureError as error:
        return row(reason=f"not measured at this scale: {error}")
    if not np.isfinite(values).all():
        return row(reason="the measured value is not a finite number")
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return row(ours=float(np.mean(values)), ours_spread=spread, seeds=len(values))
