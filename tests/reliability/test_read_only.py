"""Read-only data: a prepared data set is enough, and where one must be written the folder is named."""

from __future__ import annotations

import os
import shutil

import pytest
from small_project import Project
from trial_project import assert_clean, assert_one_sentence, assert_same_part, assert_succeeds, job

pytestmark = [
    pytest.mark.reliability,
    pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root, and no setpriv"),
]

PREPARE = ["python", "-m", "tangentbench.suite.steps", "dataset", "sphere_pairs"]


def without_privileges(call: list[str]) -> list[str]:
    """Root writes everywhere; without these capabilities it is bound by the modes of files as anybody else."""
    if os.geteuid() != 0:
        return call
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", *call]


def test_read_only_data(trial: Project, undisturbed: Project) -> None:
    data = trial.root / "data"
    for file in data.rglob("*"):
        file.chmod(0o444)
    data.chmod(0o555)
    try:
        assert_succeeds(trial.run(*without_privileges(job("trial_gram"))))
        assert_same_part(trial, undisturbed, "trial_gram")
        assert_clean(trial)
        assert_one_sentence(trial.run(*without_privileges(PREPARE)), "cannot write data/sphere_pairs", "permission")
    finally:
        data.chmod(0o755)
    assert sorted(file.name for file in data.iterdir()) == sorted(
        file.name for file in (undisturbed.root / "data").iterdir()
    )
