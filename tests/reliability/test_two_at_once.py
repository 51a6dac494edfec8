"""Two Snakemakes in one folder, two jobs at one part: one works, the other says why it does not or waits."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_project import Project
from trial_project import STEPS, assert_clean, assert_one_sentence, assert_same_part, job, steps_taken

pytestmark = [pytest.mark.reliability, pytest.mark.pipeline]

PATIENCE_SECONDS = 60


def start(project: Project, *call: str) -> subprocess.Popen[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        call,
        cwd=project.root,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(project.root / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(file: Path, words: str = "") -> None:
    begin = time.monotonic()
    while not (file.exists() and words in file.read_text()):
        assert time.monotonic() - begin < PATIENCE_SECONDS, f"{file} with {words!r} does not appear"
        time.sleep(0.02)


@pytest.fixture
def hold(trial: Project) -> Iterator[Path]:
    """A file that makes the work stand still at its next step."""
    file = trial.root / "hold"
    file.touch()
    yield file
    file.unlink(missing_ok=True)


def test_second_snakemake_is_refused(trial: Project, undisturbed: Project, hold: Path) -> None:
    first = start(trial, "snakemake", "--cores", "1", "results/quick/trial/parts/trial_gram/all.parquet")
    wait_for(trial.root / "steps.log")
    assert_one_sentence(trial.snakemake("trial_gram"), "lock")
    assert_one_sentence(trial.tangentbench("run", "trial_gram"), "a Snakemake (process", "works in this folder")
    hold.unlink()
    assert first.wait() == 0, first.stdout.read()  # type: ignore[union-attr]
    assert_same_part(trial, undisturbed, "trial_gram")
    assert_clean(trial)


@pytest.mark.parametrize("same_code", [True, False])
def test_second_job_waits_for_the_first(trial: Project, undisturbed: Project, hold: Path, same_code: bool) -> None:
    """A job whose Snakemake was killed goes on; the next Snakemake's job takes its result if it is the same work."""
    first = start(trial, *job("trial_gram", "--code", "a"))
    wait_for(trial.root / "steps.log")
    second = start(trial, *job("trial_gram", "--code", "a" if same_code else "b", "--log", "second.log"))
    wait_for(trial.root / "second.log", "waiting for it to end")
    hold.unlink()
    for one in (first, second):
        assert one.wait() == 0, one.stdout.read()  # type: ignore[union-attr]
    assert steps_taken(trial) == STEPS["trial_gram"] * (1 if same_code else 2)
    assert_same_part(trial, undisturbed, "trial_gram")
    assert_clean(trial)
