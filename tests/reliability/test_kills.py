"""Kill -9 at random moments, twenty times in all: the work goes on where it was and ends with the same bytes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from small_project import Project
from trial_project import STEPS, assert_clean, assert_same_part, assert_succeeds, job, steps_taken

pytestmark = [pytest.mark.reliability, pytest.mark.pipeline]

SEED = 20
JOB_KILLS = 7
JOB_LONGEST_SECONDS = 0.25
SNAKEMAKE_KILLS = 6
STARTING_SECONDS, WORKING_SECONDS = 5.0, 1.5
"""Half of the kills fall while Snakemake starts, half after a job has begun its work."""
FINAL_FILES = [f"trial_{name}.{kind}" for name in ("training", "gram") for kind in ("parquet", "csv", "png", "pdf")]


@pytest.mark.parametrize("name", ["trial_training", "trial_gram"])
def test_killed_job_goes_on_where_it_was(trial: Project, undisturbed: Project, name: str) -> None:
    driver = Path(__file__).with_name("kill_often.py")
    numbers = [str(SEED), str(JOB_KILLS), str(JOB_LONGEST_SECONDS)]
    assert_succeeds(trial.run("python", str(driver), *numbers, *job(name)[3:]))
    assert_same_part(trial, undisturbed, name)
    assert_clean(trial)
    # a kill loses at most the epoch or the tile it falls into
    assert steps_taken(trial) <= STEPS[name] + JOB_KILLS


def start_snakemake(project: Project) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.Popen(
        ["tangentbench", "run", "trial", "--cores", "2"],
        cwd=project.root,
        env={**environment, "PYTHONPATH": str(project.root / "src")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def snakemake_below(process: subprocess.Popen[bytes]) -> int | None:
    """The Snakemake that `tangentbench run` has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    with suppress(OSError):
        for child in children.read_text().split():
            return int(child)
    return None


def wait_for_a_step(project: Project, process: subprocess.Popen[bytes]) -> None:
    """Return when a job takes a step, or Snakemake has ended."""
    log = project.root / "steps.log"
    before = log.stat().st_size if log.exists() else 0
    while process.poll() is None and not (log.exists() and log.stat().st_size > before):
        time.sleep(0.02)


def test_killed_snakemake_is_started_again(trial: Project, undisturbed: Project) -> None:
    """Now Snakemake alone, whose jobs go on as orphans, now everything at once as in a power cut."""
    moments = random.Random(SEED)
    sessions, kills = [], 0
    try:
        while kills < SNAKEMAKE_KILLS:
            alone = moments.random() < 0.5
            process = start_snakemake(trial)
            sessions.append(process.pid)
            if kills % 2 == 0:
                time.sleep(moments.uniform(0, STARTING_SECONDS))
            else:
                wait_for_a_step(trial, process)
                time.sleep(moments.uniform(0, WORKING_SECONDS))
            if process.poll() is not None:
                shutil.rmtree(trial.root / "results", ignore_errors=True)
                continue
            kills += 1
            if alone and (snakemake := snakemake_below(process)):
                with suppress(ProcessLookupError):
                    os.kill(snakemake, signal.SIGKILL)
            else:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert_succeeds(trial.tangentbench("run", "trial", "--cores", "2"))
    finally:
        for session in sessions:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(session, signal.SIGKILL)
    ours, theirs = (one.root / "results/quick/trial" for one in (trial, undisturbed))
    for file in FINAL_FILES:
        assert (ours / file).read_bytes() == (theirs / file).read_bytes(), file
    assert_clean(trial)
    assert "Nothing to be done" in trial.snakemake("--dry-run", "trial").stdout
