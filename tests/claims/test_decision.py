"""Decisions: what is measured, how it spreads over seeds, and the region the claim allows."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tangentbench.atomic import read_json
from tangentbench.claims import FAILED, HELD, NOT_RUN, NOT_TESTABLE, STATES, Verdict, decide
from tangentbench.claims.decision import COMPARISONS, Interval
from tangentbench.claims.measures import MeasureError
from tangentbench.paths import Paths, find_root
from tangentbench.suite.catalogue import Artifact, Claim

ARTIFACT = Artifact("demo_fig1", "demo", "A title", "figure", "Figure 1", "A caption")
Expected = float | tuple[float, float]


def claim(compare: str, expected: Expected, tolerance: float = 0.0, scale: str = "quick") -> Claim:
    return Claim("demo_claim", "demo_fig1", "It holds.", scale, {}, compare, expected, tolerance)


def decided(claimed: Claim, *values: float, scale: str = "quick") -> Verdict:
    """The verdict on one value (a table without seeds) or on one value a seed."""
    table = pd.DataFrame({"value": list(values)})
    return decide(claimed, ARTIFACT, scale, table if len(values) == 1 else table.rename_axis("seed").reset_index())


@pytest.mark.parametrize(
    ("compare", "expected", "tolerance", "value", "state"),
    [
        ("equal", 2.0, 0.1, 2.05, HELD),
        ("equal", 2.0, 0.1, 2.2, FAILED),
        ("equal", 18.0, 0.0, 18.0, HELD),
        ("equal", 18.0, 0.0, 17.0, FAILED),
        ("at_most", 1.0, 0.0, 0.9, HELD),
        ("at_most", 1.0, 0.0, 1.0, HELD),
        ("at_most", 1.0, 0.0, 1.1, FAILED),
        ("at_most", 1.0, 0.2, 1.1, HELD),
        ("at_least", 1.0, 0.0, 1.1, HELD),
        ("at_least", 1.0, 0.0, 0.9, FAILED),
        ("at_least", 1.0, 0.2, 0.9, HELD),
        ("between", (1.0, 2.0), 0.0, 1.5, HELD),
        ("between", (1.0, 2.0), 0.0, 0.9, FAILED),
        ("between", (1.0, 2.0), 0.0, 2.1, FAILED),
        ("between", (1.0, 2.0), 0.2, 2.1, HELD),
    ],
)
def test_a_single_number(compare: str, expected: Expected, tolerance: float, value: float, state: str) -> None:
    assert decided(claim(compare, expected, tolerance), value).state == state


@pytest.mark.parametrize(
    ("compare", "expected", "tolerance"),
    [("equal", 10.0, 1.0), ("at_most", 11.0, 0.0), ("at_least", 9.0, 0.0), ("between", (9.0, 11.0), 0.0)],
)
class TestSpreadOverSeeds:
    """Every comparison allows 10 and its neighbourhood; `far` lies on the side each of them forbids."""

    def test_an_interval_inside_holds(self, compare: str, expected: Expected, tolerance: float) -> None:
        verdict = decided(claim(compare, expected, tolerance), 9.9, 10.0, 10.1)
        assert verdict.state == HELD
        assert verdict.seeds == 3

    def test_an_interval_outside_fails(self, compare: str, expected: Expected, tolerance: float) -> None:
        far = 0.0 if compare == "at_least" else 20.0
        assert decided(claim(compare, expected, tolerance), far - 0.1, far, far + 0.1).state == FAILED

    def test_an_interval_across_the_border_decides_nothing(
        self, compare: str, expected: Expected, tolerance: float
    ) -> None:
        verdict = decided(claim(compare, expected, tolerance), 2.0, 10.0, 18.0)
        assert verdict.state == NOT_TESTABLE
        assert verdict.measured == pytest.approx(10.0)
        assert "spread" in verdict.reason


def test_the_interval_is_students() -> None:
    values = np.array([1.0, 2.0, 4.0, 7.0])
    low, high = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
    interval = Interval.of(values)
    assert (interval.low, interval.high) == pytest.approx((low, high))
    assert Interval.of(values[:1]).half_width == 0.0


def test_equal_needs_an_interval_no_wider_than_the_tolerance() -> None:
    values = (9.5, 10.0, 10.5)
    width = Interval.of(np.array(values)).half_width
    assert decided(claim("equal", 10.0, width * 1.01), *values).state == HELD
    assert decided(claim("equal", 10.0, width * 0.99), *values).state == NOT_TESTABLE


@pytest.mark.parametrize(("scale", "state"), [("quick", NOT_TESTABLE), ("cpu", HELD), ("paper", HELD)])
def test_below_its_scale_a_claim_is_not_testable(scale: str, state: str) -> None:
    verdict = decided(claim("at_most", 1.0, scale="cpu"), 0.5, scale=scale)
    assert verdict.state == state
    assert verdict.measured == 0.5
    if state == NOT_TESTABLE:
        assert "decidable from scale cpu" in verdict.reason


def test_below_its_scale_a_failing_number_is_not_held_against_the_claim() -> None:
    assert decided(claim("at_most", 1.0, scale="paper"), 5.0, scale="cpu").state == NOT_TESTABLE


def test_an_artifact_without_a_table_has_not_run() -> None:
    verdict = decide(claim("at_most", 1.0), ARTIFACT, "cpu", None)
    assert (verdict.state, verdict.measured) == (NOT_RUN, None)
    assert "scale cpu" in verdict.reason


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_what_is_no_finite_number_fails(value: float) -> None:
    assert decided(claim("at_most", 1.0), value).state == FAILED
    assert decided(claim("at_most", 1.0, scale="cpu"), value).state == NOT_TESTABLE


def test_a_table_that_cannot_answer_is_an_error_only_where_the_claim_is_decidable() -> None:
    asks_for_more = replace(claim("at_most", 1.0, scale="cpu"), measure={"column": "loss"})
    assert decided(asks_for_more, 0.5, scale="quick").state == NOT_TESTABLE
    with pytest.raises(MeasureError, match="no column 'loss'"):
        decided(asks_for_more, 0.5, scale="cpu")


@pytest.mark.parametrize("expected", [1.0, (0.0, 1.0)])
def test_a_record_is_plain_json_with_the_keys_readers_count_on(expected: Expected) -> None:
    compare = "between" if isinstance(expected, tuple) else "at_most"
    record = decided(claim(compare, expected), 0.5).as_record()
    assert {"claim", "artifact", "statement", "state", "measured", "expected", "scale"} <= set(record)
    assert (record["claim"], record["artifact"], record["statement"]) == ("demo_claim", "demo_fig1", "It holds.")
    assert (record["state"], record["measured"], record["scale"]) == (HELD, 0.5, "quick")
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_the_states_are_four_and_the_comparisons_those_of_the_schema() -> None:
    assert STATES == ("held", "failed", "not testable at this scale", "not run")
    schema = read_json(Paths(find_root()).schemas / "catalogue.schema.json")
    assert set(schema["$defs"]["claim"]["properties"]["compare"]["enum"]) == set(COMPARISONS)
