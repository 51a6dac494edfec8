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
    """One number per seed (or just one where the table has no seeds).

    `where` picks rows (a list means any of its values), `column` the quantity, `reduce` and `over` make one number of
    the rows, `minus` and `divided_by` combine it with another measure of the same table, seed by seed.
    `across_seeds: mean` averages the rows over seeds first (a curve's mean before its minimum is looked for);
    `across_seeds: pooled` takes the rows of all seeds together (one exception decides what is said of every run).
    """
    return combined(measure, table).to_numpy(dtype=float)


def combined(measure: Mapping[str, Any], table: pd.DataFrame) -> pd.Series:
    result = series(measure, table)
    for key, combine in (("minus", pd.Series.sub), ("divided_by", pd.Series.div)):
        if key in measure:
            result = combine(*matched(result, combined(measure[key], table)))
    return result


def matched(left: pd.Series, right: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Two measures seed by seed; one without seeds stands beside every seed of the other."""
    if right.index.name != SEED:
        return left, pd.Series(float(right.iloc[0]), index=left.index)
    if left.index.name != SEED:
        return pd.Series(float(left.iloc[0]), index=right.index), right
    left, right = left.align(right, join="inner")
    if left.empty:
        raise MeasureError("the two measures to combine have no seed in common")
    return left, right


def series(measure: Mapping[str, Any], table: pd.DataFrame) -> pd.Series:
    column = measure.get("column", "value")
    over = measure.get("over")
    rows = select(table, measure.get("where", {}))
    for name in (column, over):
        if name is not None and name not in rows.columns:
            raise MeasureError(f"the table has no column '{name}' (it has {', '.join(map(str, table.columns))})")
    asked, rows = rows, rows.dropna(subset=[column])
    lost = lost_seeds(asked, rows)
    if rows.empty and not lost:
        raise MeasureError(f"no row of the table fits {dict(measure.get('where', {}))}")
    if lost and (rows.empty or "across_seeds" in measure):
        # a mean or a pool over the seeds that are left would be of other seeds than the claim speaks of
        return pd.Series(float("nan"), index=pd.Index(lost, name=SEED))
    reduce = measure.get("reduce", "only")
    if measure.get("across_seeds") == "mean" and SEED in rows.columns:
        if over is None:
            raise MeasureError("a mean across seeds needs 'over', the column that matches their rows")
        rows = rows.groupby(over, as_index=False, sort=True)[column].mean()
    pooled = measure.get("across_seeds") == "pooled"
    if pooled or SEED not in rows.columns or rows[SEED].isna().all():
        return pd.Series([reduce_rows(reduce, rows, column, over)])
    groups = rows.groupby(SEED, sort=True)
    by_seed = {seed: reduce_rows(reduce, group, column, over) for seed, group in groups}
    return pd.Series(by_seed | dict.fromkeys(lost, float("nan"))).sort_index().rename_axis(SEED)


def lost_seeds(asked: pd.DataFrame, measured: pd.DataFrame) -> list[Any]:
    """The seeds whose rows hold no number: trainings that diverged or ran out of steps."""
    if SEED not in asked.columns:
        return []
    return sorted(set(asked[SEED].dropna()) - set(measured[SEED].dropna()))


def select(table: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    for name, wanted in where.items():
        if name not in table.columns:
            raise MeasureError(f"the table has no column '{name}' (it has {', '.join(map(str, table.columns))})")
        values = wanted if isinstance(wanted, list) else [wanted]
        if any(isinstance(value, float) for value in values):
            numbers = pd.to_numeric(table[name], errors="coerce")
            near = [np.isclose(numbers, float(value), rtol=1e-9, atol=0.0) for value in values]
            table = table[np.logical_or.reduce(near)]
        else:
            table = table[table[name].isin(values)]
    return table


def reduce_rows(reduce: str, rows: pd.DataFrame, column: str, over: str | None) -> float:
    if reduce in WITH_AXIS:
        if over is None:
            raise MeasureError(f"the measure '{reduce}' needs 'over', the column it runs along")
        if reduce in NEED_TWO_POINTS and rows[over].nunique() < 2:
            raise MeasureError(f"the measure '{reduce}' needs at least two values of '{over}'")
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


def loglog_slope(axis: np.ndarray, values: np.ndarray) -> float:
    """Not a number where there is no logarithm to take."""
    if min(axis.min(), values.min()) <= 0:
        return float("nan")
    return float(np.polyfit(np.log(axis), np.log(values), 1)[0])


def rank_correlation(axis: np.ndarray, values: np.ndarray) -> float:
    """Spearman's; not a number where all values are alike."""
    return float(stats.spearmanr(axis, values).statistic) if np.ptp(values) > 0 else float("nan")


WITH_AXIS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "argmin": lambda axis, values: axis[np.argmin(values)],
    "argmax": lambda axis, values: axis[np.argmax(values)],
    "slope": lambda axis, values: np.polyfit(axis, values, 1)[0],
    "loglog_slope": loglog_slope,
    "rank_correlation": rank_correlation,
}

NEED_TWO_POINTS = ("slope", "loglog_slope", "rank_correlation")
