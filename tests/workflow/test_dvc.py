"""DVC carries the results of a small project: repro, push, checkout, and a pull in another clone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from small_project import ROOT, Project, copy_project

pytestmark = [pytest.mark.dvc, pytest.mark.pipeline]

AUTHOR = {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t"}


def do(project: Project, *call: str) -> str:
    done = project.run(*call)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def nothing_to_do(project: Project) -> bool:
    return "Nothing to be done" in do(project, "snakemake", "--dry-run", "--cores", "1", "--", "mine")


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project under git and DVC, reproduced, committed and pushed to a local remote."""
    folder = tmp_path_factory.mktemp("dvc")
    project = copy_project(folder / "project")
    project.environment = {**AUTHOR, "DVC_NO_ANALYTICS": "1"}
    do(project, "python", "-m", "tangentbench.suite.generate")
    entry = project.root / "src/tangentbench/studies/mine/catalogue.yaml"
    entry.write_text(
        entry.read_text("utf-8").replace("    split:", "    datasets: [sphere_pairs]\n    split:"), "utf-8"
    )
    shutil.copy2(ROOT / ".gitignore", project.root / ".gitignore")
    do(project, "git", "init", "--quiet", ".")
    do(project, "dvc", "init", "--quiet", "--force")
    shutil.copy2(ROOT / ".dvc" / "config", project.root / ".dvc" / "config")
    shutil.copy2(ROOT / ".dvcignore", project.root / ".dvcignore")
    do(project, "dvc", "remote", "add", "--default", "store", str(folder / "remote"))
    do(project, "dvc", "repro")
    do(project, "git", "add", ".")
    do(project, "git", "commit", "--quiet", "--message", "results")
    do(project, "dvc", "push")
    return project


def test_our_configuration_sends_nothing_and_copies() -> None:
    config = (ROOT / ".dvc" / "config").read_text("utf-8")
    assert "analytics = false" in config
    assert "type = copy" in config


def test_repro_has_nothing_to_do_twice(tracked: Project) -> None:
    assert "up to date" in do(tracked, "dvc", "repro")


def test_claims_are_metrics(tracked: Project) -> None:
    shown = json.loads(do(tracked, "dvc", "metrics", "show", "--json"))
    (values,) = shown[""]["data"].values()
    assert values["data"]["mine_rate"]["state"] == "held"


def test_checkout_leaves_snakemake_nothing_to_do(tracked: Project) -> None:
    before = tracked.results()
    shutil.rmtree(tracked.root / "results" / "quick" / "mine")
    do(tracked, "dvc", "checkout")
    assert tracked.results() == before
    assert nothing_to_do(tracked)


def clone_of(tracked: Project, folder: Path) -> Project:
    do(tracked, "git", "clone", "--quiet", str(tracked.root), str(folder))
    return Project(folder, tracked.environment)


def test_pull_in_another_clone_leaves_nothing_to_do(tracked: Project, tmp_path: Path) -> None:
    clone = clone_of(tracked, tmp_path / "clone")
    assert not clone.results()
    assert "nothing to do" in do(clone, "tangentbench", "pull")
    assert clone.results() == tracked.results()
    assert "Nothing to be done" in do(clone, "tangentbench", "run", "all", "--cores", "1")
    assert not list((clone.root / "data").glob("*.npz")), "the data set is not needed again"


def test_results_of_other_settings_are_not_taken_over(tracked: Project, tmp_path: Path) -> None:
    clone = clone_of(tracked, tmp_path / "clone")
    entry = clone.root / "src/tangentbench/studies/mine/catalogue.yaml"
    entry.write_text(entry.read_text("utf-8").replace("runs: 5", "runs: 6"), encoding="utf-8")
    done = clone.run("tangentbench", "pull")
    assert done.returncode == 1
    assert "do not belong to this checkout" in done.stderr
    assert "mine" in done.stderr
    assert not nothing_to_do(clone)


def test_a_remote_that_is_not_there(tracked: Project, tmp_path: Path) -> None:
    clone = clone_of(tracked, tmp_path / "clone")
    do(clone, "dvc", "remote", "modify", "store", "url", str(tmp_path / "nowhere"))
    done = clone.run("tangentbench", "pull")
    assert done.returncode == 1
    assert "nothing was taken over: dvc pull failed" in done.stderr
    assert "Traceback" not in done.stderr
