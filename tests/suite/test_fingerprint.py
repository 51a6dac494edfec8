"""The fingerprint follows the code that can change a number, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_project import ROOT

from tangentbench.paths import Paths
from tangentbench.suite.catalogue import load_catalogue
from tangentbench.suite.fingerprint import WIRING, closure, fingerprint, fingerprint_of


@pytest.fixture
def source(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "src"


def fingerprint_in(source: Path, module: str) -> str:
    code = f"from tangentbench.suite.fingerprint import fingerprint; print(fingerprint('{module}'))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def edit(source: Path, module: str, text: str) -> None:
    file = source / f"{module.replace('.', '/')}.py"
    file.write_text(file.read_text("utf-8") + text, encoding="utf-8")


def test_same_code_same_fingerprint(source: Path) -> None:
    assert fingerprint_in(source, "tangentbench.claims") == fingerprint("tangentbench.claims")


@pytest.mark.parametrize("harmless", ["\n# why\n", "\n\n\n"])
def test_comments_and_layout_do_not_count(source: Path, harmless: str) -> None:
    before = fingerprint_in(source, "tangentbench.claims")
    edit(source, "tangentbench.claims.measures", harmless)
    assert fingerprint_in(source, "tangentbench.claims") == before


def test_an_edit_of_an_imported_module_counts(source: Path) -> None:
    before = fingerprint_in(source, "tangentbench.studies.npk")
    edit(source, "tangentbench.networks.memorisation", "\nEXTRA = 1\n")
    assert fingerprint_in(source, "tangentbench.studies.npk") != before


def test_an_edit_elsewhere_does_not_count(source: Path) -> None:
    before = fingerprint_in(source, "tangentbench.studies.npk")
    edit(source, "tangentbench.report.gallery", "\nEXTRA = 1\n")
    edit(source, "tangentbench.studies.conditioning.measure.activations", "\nEXTRA = 1\n")
    assert fingerprint_in(source, "tangentbench.studies.npk") == before


def test_closure_leaves_the_wiring_out() -> None:
    reached = closure("tangentbench.studies.npk")
    assert "tangentbench.networks.memorisation" in reached
    assert not reached & WIRING


def test_a_damaged_memory_is_ignored(source: Path) -> None:
    before = fingerprint_in(source, "tangentbench.claims")
    (memory,) = source.glob("tangentbench/__pycache__/fingerprints-*.json")
    assert fingerprint_in(source, "tangentbench.claims") == before
    memory.write_text('{"half')
    assert fingerprint_in(source, "tangentbench.claims") == before


@pytest.mark.parametrize("room", ["studies", "figures"])
def test_an_artifact_follows_only_the_module_that_registers_it(room: str) -> None:
    whole = {fingerprint(f"tangentbench.{room}.{study}") for study in ("npk", "conditioning")}
    for artifact in load_catalogue(Paths(ROOT)):
        module = f"tangentbench.{room}.{artifact.study}"
        if (ROOT / "src" / module.replace(".", "/")).is_dir():
            assert fingerprint_of(module, artifact.name) not in whole
