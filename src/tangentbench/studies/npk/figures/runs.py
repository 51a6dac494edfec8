"""Curves of many runs: the mean as a line, all runs inside a band."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes


def mean_and_range(
    axis: Axes, rows: pd.DataFrame, over: str, *, colour: str, label: str | None, **options: Any
) -> None:
    """The mean over runs of `value` against `over`, and a band from the lowest run to the highest."""
    groups = rows.groupby(over, sort=True)["value"]
    mean, low, high = groups.mean(), groups.min(), groups.max()
    axis.plot(mean.index.to_numpy(dtype=float), mean, color=colour, label=label, **options)
    axis.fill_between(mean.index.to_numpy(dtype=float), low, high, color=colour, alpha=0.18, linewidth=0)


def of(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """The rows whose columns have these values."""
    for column, value in values.items():
        table = table[table[column] == value]
    return table
