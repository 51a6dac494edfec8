from __future__ import annotations

from pathlib import Path

import pytest
from tiny_project import TinyProject, losses

from tangentbench.atomic import read_json
from tangentbench.claims import FAILED, HELD, NOT_RUN, NOT_TESTABLE
from tangentbench.claims.measures import MeasureError
from tangentbench.claims.verdicts import count_states, decide_all, failed, verdicts, write_claims
from tangentbench.errors import ResultUnreadable


def test_every_claim_has_its_state(built: TinyProject) -> None:
    found = {verdict.claim.name: verdict.state for verdict in verdicts(built.catalogue, built.paths, "quick")}
    assert found == {
        "alpha_falls": HELD,
        "alpha_small": FAILED,
        "alpha_large": NOT_TESTABLE,
        "beta_constant": NOT_RUN,
    }


def test_nothing_was_built_at_another_scale(built: TinyProject) -> None:
    assert {verdict.state for verdict in verdicts(built.catalogue, built.paths, "cpu")} == {NOT_RUN}


def test_only_the_artifacts_asked_for(built: TinyProject) -> None:
    chosen = built.catalogue.studies["beta"].artifacts.values()
    assert [v.claim.name for v in verdicts(built.catalogue, built.paths, "quick", chosen)] == ["beta_constant"]


def test_counts_name_every_state(built: TinyProject) -> None:
    found = verdicts(built.catalogue, built.paths, "quick")
    assert count_states(found) == {HELD: 1, FAILED: 1, NOT_TESTABLE: 1, NOT_RUN: 1}
    assert count_states([]) == {HELD: 0, FAILED: 0, NOT_TESTABLE: 0, NOT_RUN: 0}
    assert [verdict.claim.name for verdict in failed(found)] == ["alpha_small"]


def test_a_damaged_table_is_named(built: TinyProject) -> None:
    table = built.paths.table("quick", "alpha", "alpha_fig1")
    table.write_bytes(table.read_bytes()[:-200])
    with pytest.raises(ResultUnreadable, match=r"alpha_fig1\.parquet.*delete it and run again"):
        verdicts(built.catalogue, built.paths, "quick")


def test_a_measure_the_table_cannot_answer_names_claim_and_file(tiny: TinyProject) -> None:
    artifact = tiny.catalogue.artifact("alpha_fig1")
    with pytest.raises(MeasureError, match=r"alpha_falls of alpha_fig1.*studies/alpha/catalogue\.yaml"):
        decide_all(artifact, "quick", losses().rename(columns={"loss": "losses"}))


def test_claims_file_is_a_list_of_records(built: TinyProject, tmp_path: Path) -> None:
    target = tmp_path / "claims.json"
    write_claims(target, verdicts(built.catalogue, built.paths, "quick"))
    records = read_json(target)
    assert records["alpha_small"]["measured"] == pytest.approx(2.1)
    assert records["alpha_small"]["expected"] == 1.0
    assert records["alpha_small"]["scale"] == "quick"
    assert {"artifact", "statement", "state", "half_width", "reason"} <= set(records["beta_constant"])
