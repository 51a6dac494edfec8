"""A full disk costs a sentence and no result: after some space is freed the work goes on."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from small_project import Project
from trial_project import (
    STEPS,
    assert_clean,
    assert_one_sentence,
    assert_same_part,
    assert_succeeds,
    job,
    part,
    steps_taken,
)

pytestmark = pytest.mark.reliability

DISK_KIB = 512
LOG = "results/log/job.log"


@pytest.fixture
def disk(trial: Project) -> Iterator[Path]:
    """results/ on a small disk of its own."""
    folder = trial.root / "results"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK_KIB}k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, leaving: int) -> Path:
    """A file that leaves so many bytes free."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as stream:
        with suppress(OSError):
            while True:
                stream.write(bytes(4096))
        size = stream.tell()
        stream.truncate(size - leaving)
    return ballast


@pytest.mark.parametrize(
    ("name", "leaving", "words"),
    [
        ("trial_training", 12288, "the disk is full"),
        ("trial_gram", 12288, "free some space"),
    ],
)
def test_full_disk(trial: Project, undisturbed: Project, disk: Path, name: str, leaving: int, words: str) -> None:
    ballast = fill(disk, leaving)
    assert_one_sentence(trial.run(*job(name, "--log", LOG)), words)
    assert not part(trial, name).exists()
    ballast.unlink()
    assert_succeeds(trial.run(*job(name, "--log", LOG)))
    assert_same_part(trial, undisturbed, name)
    assert_clean(trial)


def test_disk_that_fills_up_on_the_way(trial: Project, undisturbed: Project, disk: Path) -> None:
    """The store finds room at the start; then others take it. Finished tiles stay and are not computed again."""
    study = trial.root / "src/tangentbench/studies/trial/measure.py"
    study.write_text(study.read_text() + FILLING)
    done = trial.run(*job("trial_gram", "--log", LOG), FILL_AFTER="10")
    assert_one_sentence(done, "the disk is full")
    assert len(list(disk.rglob("gram/tiles/0*.npy"))) == 10
    (disk / "ballast").unlink()
    assert_succeeds(trial.run(*job("trial_gram", "--log", LOG)))
    assert steps_taken(trial) == STEPS["trial_gram"] + 1
    assert_same_part(trial, undisturbed, "trial_gram")
    assert_clean(trial)


FILLING = f'''

def filling_note(step, pause, count=[0]):
    """Fill the disk before the step of that number."""
    import os
    count[0] += 1
    if os.environ.get("FILL_AFTER") == str(count[0] - 1):
        with open("results/ballast", "wb", buffering=0) as stream:
            try:
                while True:
                    stream.write(bytes(4096))
            except OSError as error:
                assert error.errno == {errno.ENOSPC}
    with STEPS.open("a") as stream:
        stream.write(step + chr(10))


note = filling_note
'''
