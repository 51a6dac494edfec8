"""The generated files: none is stale, and each says what the catalogue says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from small_project import ROOT, copy_project

from tangentbench.paths import Paths
from tangentbench.suite.catalogue import load_catalogue
from tangentbench.suite.generate import COMMAND, generated, stale, write_all

PATHS = Paths(ROOT)
CATALOGUE = load_catalogue(PATHS)


def test_no_generated_file_is_stale() -> None:
    assert [str(file.relative_to(ROOT)) for file in stale(PATHS)] == [], f"run `{COMMAND}`"


@pytest.fixture
def copy(tmp_path: Path) -> Paths:
    """A project whose only study is the README's example, with the generated files of ours."""
    return Paths(copy_project(tmp_path / "copy").root)


def test_another_study_makes_pipeline_and_readme_stale_and_writing_renews_them(copy: Paths) -> None:
    assert set(stale(copy)) == {copy.dvc_pipeline, copy.readme}
    assert set(write_all(copy)) == {copy.dvc_pipeline, copy.readme}
    assert stale(copy) == write_all(copy) == []
    pipeline = yaml.safe_load(copy.dvc_pipeline.read_text("utf-8"))
    assert set(pipeline["stages"]) == {"mine", "gallery"}
    assert pipeline["plots"] == ["results/${scale}/mine/mine_fig1.png"]
    assert "| `mine_fig1` | Random ReLU features approach their kernel | Figure 1 |" in copy.readme.read_text("utf-8")
    assert "npk_fig1" not in copy.readme.read_text("utf-8").split("end of artifacts")[0].split("written by")[1]


def test_another_lock_makes_the_environments_stale(copy: Paths) -> None:
    write_all(copy)
    copy.lock.write_text(copy.lock.read_text("utf-8").replace("numpy==", "numpy==1"), encoding="utf-8")
    shutil.copy2(copy.environments / "data.yaml", copy.environments / "left_over.yaml")
    found = stale(copy)
    assert copy.environments / "measure.yaml" in found
    assert copy.environments / "left_over.yaml" in found
    write_all(copy)
    assert not (copy.environments / "left_over.yaml").exists()


def test_a_stage_waits_for_the_studies_whose_tables_it_takes_at_any_scale() -> None:
    stages = yaml.safe_load(generated(PATHS)[PATHS.dvc_pipeline])["stages"]
    assert set(stages) == {*CATALOGUE.studies, "gallery"}
    waited_for = {
        name: [dep for dep in stages[name]["deps"] if dep.startswith("results/")] for name in CATALOGUE.studies
    }
    assert waited_for.pop("npk") == ["results/${scale}/cntk"]
    assert not any(waited_for.values())
    assert len([dep for dep in stages["gallery"]["deps"] if dep.startswith("results/")]) == len(CATALOGUE.studies)


def test_a_stage_depends_on_its_own_study_and_no_other() -> None:
    stages = yaml.safe_load(generated(PATHS)[PATHS.dvc_pipeline])["stages"]
    for name in CATALOGUE.studies:
        deps = set(stages[name]["deps"])
        assert f"src/tangentbench/studies/{name}" in deps
        assert {"src/tangentbench/kernels", "src/tangentbench/studies/registry.py"} <= deps
        assert not {f"src/tangentbench/studies/{other}" for other in CATALOGUE.studies if other != name} & deps
        assert "src/tangentbench/report" not in deps
        assert all((ROOT / dep).exists() for dep in deps if not dep.startswith("results/"))
