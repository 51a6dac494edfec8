"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from small_project import Project, copy_project
from tiny_project import TinyProject

# Tests call snakemake, dvc and tangentbench by name; the environment need not be activated for them.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
# Beside another worker a second thread mostly waits for its core: the small steps of torch then take ten times longer.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return copy_project(tmp_path / "project")


@pytest.fixture
def tiny(tmp_path: Path) -> TinyProject:
    """Two studies in the catalogue, nothing built."""
    return TinyProject.create(tmp_path / "project")


@pytest.fixture
def built(tiny: TinyProject) -> TinyProject:
    """The same with alpha_fig1 built at scale quick."""
    tiny.build()
    return tiny


@pytest.fixture(scope="session")
def built_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The small project with everything built once; tests that change it take `project` instead."""
    built = copy_project(tmp_path_factory.mktemp("built") / "project")
    done = built.snakemake()
    assert done.returncode == 0, done.stderr
    return built
