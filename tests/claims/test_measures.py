"""Measures: each reduction, each way to pick rows and to combine, and what a table that cannot answer says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tangentbench.atomic import read_json
from tangentbench.claims.measures import PLAIN, WITH_AXIS, MeasureError, evaluate
from tangentbench.config import SCALES
from tangentbench.paths import Paths, find_root

CURVE = pd.DataFrame({"width": [1.0, 2.0, 4.0, 8.0], "value": [8.0, 2.0, 1.0, 3.0]})
RUNS = pd.DataFrame(
    {
        "seed": [0, 0, 1, 1, 2, 2],
        "method": ["ours", "theirs"] * 3,
        "value": [3.0, 1.0, 5.0, 2.0, 8.0, 4.0],
        "rate": [0.1, 0.2] * 3,
    }
)


def single(measure: dict[str, Any], table: pd.DataFrame = CURVE) -> float:
    (number,) = evaluate(measure, table)
    return float(number)


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        ("mean", 3.5),
        ("median", 2.5),
        ("min", 1.0),
        ("max", 8.0),
        ("sum", 14.0),
        ("count", 4.0),
        ("first", 8.0),
        ("last", 3.0),
    ],
)
def test_a_plain_reduction_makes_one_number_of_the_rows(reduce: str, expected: float) -> None:
    assert single({"reduce": reduce}) == expected


def test_without_a_reduction_exactly_one_row_must_fit() -> None:
    assert single({"where": {"width": 4.0}}) == 1.0
    with pytest.raises(MeasureError, match="4 rows fit where one was meant"):
        evaluate({}, CURVE)


@pytest.mark.parametrize(("reduce", "expected"), [("argmin", 4.0), ("argmax", 1.0)])
def test_the_place_of_an_extreme(reduce: str, expected: float) -> None:
    assert single({"reduce": reduce, "over": "width"}) == expected


def test_slopes_recover_the_law_the_values_follow() -> None:
    axis = np.array([1.0, 2.0, 5.0, 10.0])
    table = pd.DataFrame({"n": axis, "line": 3.0 - 0.5 * axis, "power": 7.0 * axis**-0.5})
    assert single({"column": "line", "reduce": "slope", "over": "n"}, table) == pytest.approx(-0.5)
    assert single({"column": "power", "reduce": "loglog_slope", "over": "n"}, table) == pytest.approx(-0.5)


def test_a_loglog_slope_of_what_has_no_logarithm_is_not_a_number() -> None:
    table = pd.DataFrame({"n": [1.0, 2.0, 3.0], "value": [1.0, 0.0, 2.0]})
    assert np.isnan(single({"reduce": "loglog_slope", "over": "n"}, table))


def test_rank_correlation_sees_order_only() -> None:
    table = pd.DataFrame({"epoch": [1, 2, 3, 4], "falls": [9.0, 3.0, 2.9, -50.0], "flat": [1.0] * 4})
    assert single({"column": "falls", "reduce": "rank_correlation", "over": "epoch"}, table) == pytest.approx(-1.0)
    assert np.isnan(single({"column": "flat", "reduce": "rank_correlation", "over": "epoch"}, table))


@pytest.mark.parametrize("reduce", ["slope", "loglog_slope", "rank_correlation"])
def test_a_trend_needs_two_points(reduce: str) -> None:
    with pytest.raises(MeasureError, match="at least two values of 'width'"):
        evaluate({"reduce": reduce, "over": "width", "where": {"width": 2.0}}, CURVE)


@pytest.mark.parametrize("reduce", sorted(WITH_AXIS))
def test_a_reduction_along_an_axis_needs_to_know_which(reduce: str) -> None:
    with pytest.raises(MeasureError, match="needs 'over'"):
        evaluate({"reduce": reduce}, CURVE)


def test_the_schema_allows_exactly_the_reductions_there_are() -> None:
    schema = read_json(Paths(find_root()).schemas / "catalogue.schema.json")
    assert set(schema["$defs"]["measure"]["properties"]["reduce"]["enum"]) == {*PLAIN, *WITH_AXIS}
    assert tuple(schema["$defs"]["scale"]["enum"]) == SCALES


def test_one_number_a_seed() -> None:
    assert evaluate({"where": {"method": "ours"}}, RUNS).tolist() == [3.0, 5.0, 8.0]
    assert evaluate({"reduce": "sum"}, RUNS).tolist() == [4.0, 7.0, 12.0]


def test_a_table_whose_seeds_are_all_missing_has_none() -> None:
    assert evaluate({"reduce": "sum"}, RUNS.assign(seed=np.nan)).tolist() == [23.0]


def test_where_takes_one_value_or_any_of_a_list() -> None:
    assert single({"where": {"width": [1.0, 8.0]}, "reduce": "sum"}) == 11.0
    assert single({"where": {"width": 2}}) == 2.0


def test_where_matches_numbers_that_differ_by_rounding_only() -> None:
    table = pd.DataFrame({"beta": [0.1 + 0.2, 0.31], "value": [1.0, 2.0]})
    assert single({"where": {"beta": 0.3}}, table) == 1.0


def test_where_with_a_number_on_a_column_of_words_fits_no_row() -> None:
    with pytest.raises(MeasureError, match="no row of the table fits"):
        evaluate({"where": {"method": 0.5}}, RUNS)


def test_rows_without_the_quantity_do_not_count() -> None:
    table = pd.DataFrame({"kind": ["a", "b"], "value": [1.0, np.nan]})
    assert single({}, table) == 1.0


@pytest.mark.parametrize("measure", [{"column": "loss"}, {"where": {"loss": 1}}, {"reduce": "argmin", "over": "loss"}])
def test_an_unknown_column_is_named_with_those_there_are(measure: dict[str, Any]) -> None:
    with pytest.raises(MeasureError, match=r"no column 'loss' \(it has width, value\)"):
        evaluate(measure, CURVE)


def test_differences_and_ratios_are_taken_seed_by_seed() -> None:
    ours, theirs = {"where": {"method": "ours"}}, {"where": {"method": "theirs"}}
    assert evaluate({**ours, "minus": theirs}, RUNS).tolist() == [2.0, 3.0, 4.0]
    assert evaluate({**ours, "divided_by": theirs}, RUNS).tolist() == [3.0, 2.5, 2.0]
    assert evaluate({**ours, "minus": {**theirs, "divided_by": theirs}}, RUNS).tolist() == [2.0, 4.0, 7.0]


def test_only_seeds_that_both_measures_have_are_combined() -> None:
    table = RUNS.drop(index=3)
    measure = {"where": {"method": "ours"}, "minus": {"where": {"method": "theirs"}}}
    assert evaluate(measure, table).tolist() == [2.0, 4.0]
    none_shared = RUNS[(RUNS["seed"] == 0) == (RUNS["method"] == "ours")]
    with pytest.raises(MeasureError, match="no seed in common"):
        evaluate(measure, none_shared)


def test_a_measure_without_seeds_stands_beside_every_seed() -> None:
    law = pd.DataFrame({"method": ["law"], "value": [2.0]})
    table = pd.concat([RUNS, law], ignore_index=True)
    ours, bound = {"where": {"method": "ours"}}, {"where": {"method": "law"}}
    assert evaluate({**ours, "minus": bound}, table).tolist() == [1.0, 3.0, 6.0]
    assert evaluate({**bound, "minus": ours}, table).tolist() == [-1.0, -3.0, -6.0]


def test_a_mean_across_seeds_comes_before_the_reduction() -> None:
    """Two noisy curves whose minima lie apart, while their mean has its minimum between them."""
    table = pd.DataFrame({"seed": [0, 0, 0, 1, 1, 1], "depth": [4, 8, 12] * 2, "value": [1.0, 2.0, 9.0, 9.0, 2.0, 1.0]})
    lowest = {"reduce": "argmin", "over": "depth"}
    assert evaluate(lowest, table).tolist() == [4.0, 12.0]
    assert evaluate({**lowest, "across_seeds": "mean"}, table).tolist() == [8.0]
    with pytest.raises(MeasureError, match="needs 'over'"):
        evaluate({"reduce": "min", "across_seeds": "mean"}, table)


def test_pooled_seeds_give_one_number_that_an_exception_decides() -> None:
    table = pd.DataFrame({"seed": [0, 0, 1, 1], "rise": [0.0, 0.1, 0.0, 3.0]})
    np.testing.assert_array_equal(evaluate({"column": "rise", "reduce": "max", "across_seeds": "pooled"}, table), [3.0])
    np.testing.assert_array_equal(evaluate({"column": "rise", "reduce": "max"}, table), [0.1, 3.0])
