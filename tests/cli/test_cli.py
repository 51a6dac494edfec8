"""The command line on the real catalogue and on a small built project."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from small_project import ROOT, Project

from tangentbench.cli.main import COMMANDS, group
from tangentbench.cli.output import duration
from tangentbench.kernels.choice import BACKENDS
from tangentbench.paths import HOME_VARIABLE, Paths
from tangentbench.studies.work import work_model
from tangentbench.suite.catalogue import load_catalogue

CATALOGUE = load_catalogue(Paths(ROOT))
NAMES = [artifact.name for artifact in CATALOGUE]
PRICED = [artifact.name for artifact in CATALOGUE if work_model(artifact.study, artifact.name)]


def call(*arguments: str) -> Result:
    return CliRunner(env={HOME_VARIABLE: str(ROOT)}).invoke(group, list(arguments), catch_exceptions=False)


def call_json(*arguments: str) -> Any:
    done = call(*arguments, "--json")
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples(name: str) -> None:
    done = call(name, "--help")
    assert done.exit_code == 0
    assert f"tangentbench {name}" in done.stdout.split("Examples:")[1]


def test_list_shows_every_artifact() -> None:
    shown = call("list").stdout
    assert all(artifact.name in shown for artifact in CATALOGUE)


def test_list_json_has_the_promised_keys() -> None:
    records = call_json("list")
    assert [record["name"] for record in records] == [artifact.name for artifact in CATALOGUE]
    for record in records:
        assert {"name", "study", "kind", "paper", "cost"} <= set(record)


def test_list_of_one_study() -> None:
    assert {record["study"] for record in call_json("list", "npk")} == {"npk"}


@pytest.mark.parametrize("name", PRICED)
def test_an_artifact_with_a_work_model_has_an_estimate_at_every_scale(name: str) -> None:
    for scale in ("quick", "cpu", "paper"):
        record = call_json("estimate", name, "--scale", scale)
        assert record["core_hours"] > 0
        assert record["gpu_hours"] >= 0
        assert record["memory_gib"] > 0
        assert record["disk_gib"] >= 0


def test_estimates_add_up() -> None:
    whole = call_json("estimate", *PRICED, "--scale", "cpu")
    parts = [call_json("estimate", name, "--scale", "cpu")["artifacts"][name] for name in PRICED]
    assert whole["core_hours"] == pytest.approx(sum(part["core_hours"] for part in parts))
    assert whole["memory_gib"] == max(part["memory_gib"] for part in parts)


def test_an_estimate_counts_what_is_built_before_and_no_training_twice() -> None:
    fig3 = call_json("estimate", "conditioning_fig3", "--scale", "cpu")
    fig7 = call_json("estimate", "conditioning_fig7", "--scale", "cpu")
    assert set(fig7["artifacts"]) == {"conditioning_fig3", "conditioning_fig7"}
    own = fig7["artifacts"]["conditioning_fig7"]["core_hours"]
    assert fig7["core_hours"] == pytest.approx(own + fig3["core_hours"])
    # three trainings against one: NormReLU's is reused from figure 3, SeLU's is figure 7's own
    assert own == pytest.approx(fig3["core_hours"] / 3, rel=0.05)
    assert fig7["artifacts"]["conditioning_fig3"] == fig3["artifacts"]["conditioning_fig3"]


@pytest.mark.parametrize("name", NAMES)
def test_show_works_for_every_artifact(name: str) -> None:
    done = call("show", name)
    assert done.exit_code == 0
    assert name in done.stdout
    assert call_json("show", name)["name"] == name


def test_check_json_has_the_promised_keys() -> None:
    records = call_json("check")
    assert len(records) == sum(len(artifact.claims) for artifact in CATALOGUE)
    for record in records:
        assert {"claim", "artifact", "statement", "state", "measured", "expected", "scale"} <= set(record)
        assert record["state"] in {"held", "failed", "not testable at this scale", "not run"}


@pytest.mark.pipeline
def test_check_exits_with_one_if_a_claim_failed(built_project: Project, tmp_path: Path) -> None:
    assert built_project.tangentbench("check").returncode == 0
    shutil.copytree(built_project.root, tmp_path / "copy")
    copy = Project(tmp_path / "copy")
    catalogue = copy.root / "src/tangentbench/studies/mine/catalogue.yaml"
    catalogue.write_text(catalogue.read_text().replace("expected: -0.5", "expected: -1.0"))
    done = copy.tangentbench("check", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)[0]["state"] == "failed"


@pytest.mark.pipeline
def test_show_compares_with_the_claim(built_project: Project) -> None:
    done = built_project.tangentbench("show", "mine_fig1")
    assert done.returncode == 0
    assert "held" in done.stdout


def test_data_lists_every_source() -> None:
    records = call_json("data")
    states = {record["name"]: record["state"] for record in records}
    assert states["mnist5k"] == "embedded"
    assert {"mnist", "fashion_mnist", "cifar10", "stl10", "photographs"} <= set(states)
    assert call("data").exit_code == 0


def test_doctor_names_what_it_found() -> None:
    report = call_json("doctor")
    assert report["versions"]["torch"]
    assert report["machine"]["cores"] >= 1
    assert "gpu" in report["compute"]
    assert "native core" in report["compute"]
    assert report["compute"]["device"] in ("cpu", "cuda:0")
    assert report["compute"]["CNTK backend"] in BACKENDS
    assert set(report["jobs"]) == {"--sdm apptainer", "image", "--sdm conda", "Slurm"}
    assert call("doctor").exit_code == 0


@pytest.mark.parametrize(
    ("hours", "text"), [(None, "–"), (10 / 3600, "10 s"), (0.5, "30 min"), (10, "10 h"), (240, "10 d"), (87660, "10 y")]
)
def test_durations_read_naturally(hours: float | None, text: str) -> None:
    assert duration(hours) == text
