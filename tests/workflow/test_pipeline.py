"""The whole way of an artifact, from the catalogue to the gallery, on the README's worked example."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pandas as pd
import pytest
from small_project import Project, readme_example

pytestmark = pytest.mark.pipeline

ARTIFACT_FILES = {f"mine/mine_fig1.{kind}" for kind in ("parquet", "csv", "json", "png", "pdf")}
NOTHING_TO_DO_SECONDS = 15
"""The promise is 5 s on an idle machine; the tests may share theirs."""


def test_readme_example_is_whole() -> None:
    assert set(readme_example()) == {
        "src/tangentbench/studies/mine/catalogue.yaml",
        "src/tangentbench/studies/mine/measure.py",
        "src/tangentbench/studies/mine/figures.py",
    }


def test_default_target_builds_everything(built_project: Project) -> None:
    assert built_project.results() >= ARTIFACT_FILES | {"index.html", "claims.json", "mine/claims.json"}
    assert len([name for name in built_project.results() if name.startswith("mine/parts/")]) == 8


def test_table_holds_all_parts(built_project: Project) -> None:
    table = pd.read_parquet(built_project.root / "results/quick/mine/mine_fig1.parquet")
    assert sorted(table["width"].unique()) == [64, 256, 1024, 4096]
    assert len(table) == 20


def test_claim_is_decided(built_project: Project) -> None:
    record = json.loads((built_project.root / "results/quick/mine/claims.json").read_text())["mine_rate"]
    assert record["state"] == "held"
    assert record["measured"] == pytest.approx(-0.5, abs=0.1)


def test_provenance_beside_the_result(built_project: Project) -> None:
    record = json.loads((built_project.root / "results/quick/mine/mine_fig1.json").read_text())
    assert record["scale"] == "quick"
    assert record["seed"] == 0
    assert record["settings"]["widths"] == [64, 256, 1024, 4096]
    assert record["seconds"] > 0
    assert "numpy" in record["versions"]


def test_finished_tree_has_nothing_to_do(built_project: Project) -> None:
    start = time.monotonic()
    done = built_project.snakemake("--dry-run")
    assert done.returncode == 0, done.stderr
    assert "Nothing to be done" in done.stderr + done.stdout
    assert time.monotonic() - start < NOTHING_TO_DO_SECONDS


def test_one_target_builds_only_itself(project: Project) -> None:
    done = project.snakemake("mine_fig1")
    assert done.returncode == 0, done.stderr
    built = {name for name in project.results() if "/parts/" not in name}
    assert built == ARTIFACT_FILES


def test_same_seed_gives_same_bytes(built_project: Project, project: Project) -> None:
    done = project.snakemake("mine_fig1")
    assert done.returncode == 0, done.stderr
    for kind in ("parquet", "csv", "png", "pdf"):
        name = f"results/quick/mine/mine_fig1.{kind}"
        assert (project.root / name).read_bytes() == (built_project.root / name).read_bytes(), kind


def test_scales_live_side_by_side(built_project: Project, tmp_path: Path) -> None:
    shutil.copytree(built_project.root, tmp_path / "copy")
    copy = Project(tmp_path / "copy")
    done = copy.snakemake("--config", "scale=cpu", "--", "mine_fig1")
    assert done.returncode == 0, done.stderr
    assert copy.results("cpu") >= ARTIFACT_FILES
    assert copy.results("quick") >= ARTIFACT_FILES
    assert len(pd.read_parquet(copy.root / "results/cpu/mine/mine_fig1.parquet")) == 80


def test_edits_rebuild_what_they_change(built_project: Project, tmp_path: Path) -> None:
    shutil.copytree(built_project.root, tmp_path / "copy")
    copy = Project(tmp_path / "copy")
    study = copy.root / "src/tangentbench/studies/mine/measure.py"
    figure = copy.root / "src/tangentbench/studies/mine/figures.py"

    study.write_text(study.read_text() + "\n# a comment changes nothing\n")
    assert "Nothing to be done" in run_dry(copy)

    figure.write_text(figure.read_text().replace('"relative error"', '"error"'))
    jobs = run_dry(copy)
    assert "figure" in jobs
    assert "measure" not in jobs

    study.write_text(study.read_text().replace("0.0)", "0.1)"))
    assert "measure" in run_dry(copy)


def run_dry(project: Project) -> str:
    done = project.snakemake("--dry-run")
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_killed_job_leaves_nothing_half_written_and_is_done_again(project: Project) -> None:
    study = project.root / "src/tangentbench/studies/mine/measure.py"
    whole = study.read_text()
    study.write_text(whole.replace("    rows = []\n", "    import os\n    os.kill(os.getpid(), 9)\n    rows = []\n"))
    assert project.snakemake("mine_fig1").returncode != 0
    # A killed process cannot remove the empty file that was its lock; the lock itself ends with it.
    assert all(file.endswith(".lock") for file in project.results())
    study.write_text(whole)
    done = project.tangentbench("run", "mine_fig1")
    assert done.returncode == 0, done.stderr
    assert project.results() >= ARTIFACT_FILES
    assert not any(file.endswith(".lock") for file in project.results())
