"""A clock that goes backwards: nothing is computed twice, no time is negative, nothing is wrong."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from small_project import Project
from trial_project import STEPS, assert_clean, assert_same_part, assert_succeeds, job, part, steps_taken, work

pytestmark = [pytest.mark.reliability, pytest.mark.pipeline]

DAY = 86400


def test_files_from_the_future(undisturbed: Project, tmp_path: Path) -> None:
    """The clock was a day ahead while the parts were made, and is right now: only what is missing is made."""
    copy = Project(tmp_path / "project")
    shutil.copytree(undisturbed.root, copy.root, symlinks=True)
    tomorrow = time.time() + DAY
    for file in [*(copy.root / "data").iterdir(), *(copy.root / "results/quick/trial/parts").rglob("*.*")]:
        os.utime(file, (tomorrow, tomorrow))
    picture = copy.root / "results/quick/trial/trial_gram.png"
    before = picture.read_bytes()
    picture.unlink()
    done = copy.snakemake("trial")
    assert_succeeds(done)
    assert "rule figure" in done.stderr
    assert "rule measure" not in done.stderr
    assert picture.read_bytes() == before
    assert "Nothing to be done" in copy.snakemake("--dry-run", "trial").stdout


@pytest.mark.skipif(shutil.which("faketime") is None, reason="faketime is not installed")
def test_clock_set_back_between_two_halves_of_a_job(trial: Project, undisturbed: Project) -> None:
    """Killed in 2031, finished in 1999: the checkpoint from the future is used."""
    study = trial.root / "src/tangentbench/studies/trial/measure.py"
    # nobody sleeps under faketime
    study.write_text(study.read_text().replace("    time.sleep(pause)\n", ""))
    (trial.root / "stop").write_text("21")
    environment = {"FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    stopped = trial.run("faketime", "2031-01-01 12:00:00", *job("trial_training"), **environment)
    assert stopped.returncode != 0 and steps_taken(trial) == 21, stopped.stderr
    # faketime leaves the times of files alone
    future = time.time() + 5 * 365 * DAY
    os.utime(work(trial, "trial_training") / "training.npz", (future, future))
    (trial.root / "stop").unlink()
    assert_succeeds(trial.run("faketime", "1999-01-01 12:00:00", *job("trial_training"), **environment))
    assert steps_taken(trial) == STEPS["trial_training"] + 1
    record = json.loads(part(trial, "trial_training", "json").read_text())
    assert record["finished_at"].startswith("1999")
    assert record["seconds"] >= 0
    assert_same_part(trial, undisturbed, "trial_training")
    assert_clean(trial)
