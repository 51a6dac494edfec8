"""The trial project, fresh and built without disturbance."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_project import Project
from trial_project import assert_succeeds, trial_project


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Built once in peace: what every disturbed run must arrive at."""
    built = trial_project(tmp_path_factory.mktemp("undisturbed") / "project")
    assert_succeeds(built.snakemake("trial"))
    return built


@pytest.fixture
def trial(undisturbed: Project, tmp_path: Path) -> Project:
    """The project with its data set and nothing else built."""
    fresh = Project(tmp_path / "project")
    shutil.copytree(undisturbed.root, fresh.root, symlinks=True)
    for name in ("results", "logs", ".snakemake"):
        shutil.rmtree(fresh.root / name)
    (fresh.root / "steps.log").unlink()
    return fresh
