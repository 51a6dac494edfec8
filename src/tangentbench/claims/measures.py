"""A measure is data: which rows of a tidy table, and what number to make of them, for each seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from tangentbench.errors import TangentbenchError

SEED = "seed"


class MeasureError(TangentbenchError):
    """A measure that the table cannot answer."""


def evaluate(measure: Mapping[str, Any], table: pd.DataFrame) -> np.ndarray:
    """One number a seed (or just one where the table has no seeds).

    `where` picks rows (a list means any of its values), `column` the quantity, `reduce` and `over` make one number of
    the rows, `minus` and `divided_by` combine it with another measure of the same table, seed by seed.
    `across_seeds: mean` averages the rows over seeds first (a curve's mean before its minimum is looked for).
    """
    result = series(measure, table)
    for key, combine in (("minus", np.subtract), ("divided_by", np.divide)):
        if key in measure:
            other = series(measure[key], table)
            result, other = result.align(other, join="inner") if len(other) == len(result) else (result, other.iloc[0])
            result = combine(result, other)
    return result.to_numpy(dtype=float)


def series(measure: Mapping[str, Any], table: pd.DataFrame) -> pd.Series:
    column = measure.get("column", "value")
    over = measure.get("over")
    rows = select(table, measure.get("where", {}))
    for name in (column, over):
        if name is not None and name not in rows.columns:
            raise MeasureError(f"the table has no column '{name}' (it has {', '.join(map(str, table.columns))})")
    rows = rows.dropna(subset=[column])
    if rows.empty:
        raise MeasureError(f"no row of the table fits {dict(measure.get('where', {}))}")
    reduce = measure.get("reduce", "only")
    if measure.get("across_seeds") == "mean" and SEED in rows.columns and over is not None:
        rows = rows.groupby(over, as_index=False, sort=True)[column].mean()
    if SEED not in rows.columns or rows[SEED].isna().all():
        return pd.Series([reduce_rows(reduce, rows, column, over)])
    return pd.Series(
        {seed: reduce_rows(reduce, group, column, over) for seed, group in rows.groupby(SEED, sort=True)}
    )


def select(table: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    for name, wanted in where.items():
        if name not in table.columns:
            raise MeasureError(f"the table has no column '{name}' (it has {', '.join(map(str, table.columns))})")
        values = wanted if isinstance(wanted, list) else [wanted]
        if any(isinstance(value, float) for value in values):
            near = [np.isclose(table[name].astype(float), float(value), rtol=1e-9, atol=0.0) for value in values]
            table = table[np.logical_or.reduce(near)]
        else:
            table = table[table[name].isin(values)]
    return table


def reduce_rows(reduce: str, rows: pd.DataFrame, column: str, over: str | None) -> float:
    if reduce in WITH_AXIS:
        if over is None:
            raise MeasureError(f"the measure '{reduce}' needs 'over', the column it runs along")
        return float(WITH_AXIS[reduce](rows[over].to_numpy(dtype=float), rows[column].to_numpy(dtype=float)))
    if reduce == "only" and len(rows) != 1:
        raise MeasureError(f"{len(rows)} rows fit where one was meant: say more in 'where' or give 'reduce'")
    return float(PLAIN[reduce](rows[column].to_numpy(dtype=float)))


PLAIN: dict[str, Callable[[np.ndarray], Any]] = {
    "only": lambda values: values[0],
    "mean": np.mean,
    "median": np.median,
    "min": np.min,
    "max": np.max,
    "sum": np.sum,
    "count": len,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}

WITH_AXIS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "argmin": lambda axis, values: axis[np.argmin(values)],
    "argmax": lambda axis, values: axis[np.argmax(values)],
    "slope": lambda axis, values: np.polyfit(axis, values, 1)[0],
    "loglog_slope": lambda axis, values: np.polyfit(np.log(axis), np.log(values), 1)[0],
    "rank_correlation": lambda axis, values: stats.spearmanr(axis, values).statistic,
}
