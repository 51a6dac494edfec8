"""A small project whose only study is `trial`: a training and a Gram matrix that can be killed at any moment."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from small_project import Project, copy_project

TRIAL = Path(__file__).resolve().parents[1] / "reliability" / "trial"
PLACES = {
    "catalogue.yaml": "src/tangentbench/studies/trial/catalogue.yaml",
    "study.py": "src/tangentbench/studies/trial/measure.py",
    "figure.py": "src/tangentbench/studies/trial/figures.py",
}
STEPS = {"trial_training": 40, "trial_gram": 36}
"""Epochs and tiles of an undisturbed run."""


def trial_project(target: Path) -> Project:
    project = copy_project(target)
    shutil.rmtree(project.root / "src/tangentbench/studies/mine")
    (project.root / "src/tangentbench/studies/trial").mkdir()
    for name, place in PLACES.items():
        shutil.copy2(TRIAL / name, project.root / place)
    return project


def job(name: str, *more: str) -> list[str]:
    """The call of the job that measures an artifact of the trial study."""
    return ["python", "-m", "tangentbench.suite.steps", "measure", name, "all", "--scale", "quick", *more]


def part(project: Project, name: str, kind: str = "parquet") -> Path:
    return project.root / f"results/quick/trial/parts/{name}/all.{kind}"


def work(project: Project, name: str) -> Path:
    return project.root / f"results/quick/trial/work/{name}/all"


def steps_taken(project: Project) -> int:
    return len((project.root / "steps.log").read_text().splitlines())


def assert_same_part(ours: Project, theirs: Project, name: str) -> None:
    assert part(ours, name).read_bytes() == part(theirs, name).read_bytes()


def assert_clean(project: Project) -> None:
    """No checkpoint, lock or temporary file is left among the results."""
    left = [file for file in project.results() if "/work/" in file or Path(file).name.startswith(".")]
    assert not left


def assert_succeeds(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr


def assert_one_sentence(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """It fails, and says so without a traceback."""
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert "Traceback" not in said, said
    for word in words:
        assert word in said, said


def flip(file: Path, position: int) -> None:
    """Damage one byte; the size stays."""
    content = bytearray(file.read_bytes())
    content[position] ^= 0x40
    file.write_bytes(content)
