from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tiny_project import TinyProject, losses

from tangentbench.report.comparison import compare, compare_value
from tangentbench.suite.catalogue import PaperValue


def test_mean_spread_and_difference_over_seeds(tiny: TinyProject) -> None:
    row = compare(tiny.catalogue.artifact("alpha_fig1"), losses())[0]
    runs = [2.1, 2.0, 2.2]
    assert row.ours == pytest.approx(np.mean(runs))
    assert row.ours_spread == pytest.approx(np.std(runs, ddof=1))
    assert row.difference == pytest.approx(np.mean(runs) - 2.05)
    assert (row.paper, row.paper_spread, row.unit, row.seeds) == (2.05, 0.1, "nats", 3)


def test_what_the_table_cannot_answer_stays_open(tiny: TinyProject) -> None:
    row = compare(tiny.catalogue.artifact("alpha_fig1"), losses())[1]
    assert row.ours is None and row.difference is None
    assert "999" in row.reason


def test_without_a_table_every_number_of_the_paper_still_stands(tiny: TinyProject) -> None:
    rows = compare(tiny.catalogue.artifact("alpha_fig1"), None)
    assert [row.paper for row in rows] == [2.05, 0.5]
    assert all(row.ours is None for row in rows)


def test_a_single_run_has_no_spread() -> None:
    row = compare_value(PaperValue("x", 1.0, measure={"column": "x"}), pd.DataFrame({"x": [1.25]}))
    assert (row.ours, row.ours_spread, row.difference) == (1.25, None, 0.25)


def test_no_measure_and_no_number() -> None:
    table = pd.DataFrame({"x": [np.inf]})
    assert compare_value(PaperValue("x", 1.0), table).ours is None
    assert compare_value(PaperValue("x", 1.0, measure={"column": "x"}), table).ours is None


def test_record_holds_the_difference() -> None:
    row = compare_value(PaperValue("x", 1.0, measure={"column": "x"}), pd.DataFrame({"x": [3.0]}))
    assert row.as_record()["difference"] == 2.0
