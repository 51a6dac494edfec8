"""The submit commands of docs/hpc.md: jobs go where there is room, and their exit codes come back."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# an ssh that stays here and notes where it should have gone
SSH = """#!/bin/bash
while [[ $1 == -* ]]; do shift 2; done
echo "$1" >> "$NOTES"
shift
exec bash -c "$*"
"""
KUBECTL = """#!/bin/bash
for word; do [[ $word == --overrides=* ]] && echo "${word#--overrides=}" >> "$NOTES"; done
exit 7
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("ssh", SSH), ("kubectl", KUBECTL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "NOTES": str(tmp_path / "notes"),
        "TANGENTBENCH_SSH_LOCKS": str(tmp_path / "locks"),
    }


def job_script(folder: Path, name: str, text: str) -> Path:
    script = folder / name
    script.write_text(text)
    return script


def test_jobs_wait_for_a_free_slot(tmp_path: Path, environment: dict[str, str]) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# machine, jobs at a time\nnode1 2\n\nnode2\n")
    script = job_script(
        tmp_path, "a job.sh", f"touch '{tmp_path}/'$$.began; while [ ! -e '{tmp_path}/go' ]; do sleep 0.05; done"
    )
    call = [str(ROOT / "tools/over_ssh"), str(hosts), str(script)]
    jobs = [subprocess.Popen(call, env=environment) for _ in range(4)]
    begin = time.monotonic()
    while len(list(tmp_path.glob("*.began"))) < 3:
        assert time.monotonic() - begin < 60
        time.sleep(0.05)
    time.sleep(1.5)
    assert len(list(tmp_path.glob("*.began"))) == 3, "there is no room for the fourth yet"
    (tmp_path / "go").touch()
    assert [job.wait(timeout=60) for job in jobs] == [0, 0, 0, 0]
    went = (tmp_path / "notes").read_text().split()
    assert len(went) == 4
    assert {"node1", "node2"} == set(went)


def test_exit_codes_come_back(tmp_path: Path, environment: dict[str, str]) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("node1 1\n")
    script = job_script(tmp_path, "job.sh", "exit 3")
    for _ in range(2):
        assert subprocess.call([str(ROOT / "tools/over_ssh"), str(hosts), str(script)], env=environment) == 3


def test_pod_asks_for_what_the_job_needs(tmp_path: Path, environment: dict[str, str]) -> None:
    script = job_script(tmp_path, "snakejob.measure.1.sh", "true")
    call = [str(ROOT / "tools/over_kubernetes"), "registry.example/tangentbench:1", "bench", "4", "8000", str(script)]
    assert subprocess.call(call, env=environment, cwd=tmp_path) == 7
    spec = json.loads((tmp_path / "notes").read_text())["spec"]
    (container,) = spec["containers"]
    assert container["command"] == ["bash", str(script)]
    assert container["workingDir"] == str(tmp_path)
    assert container["resources"]["limits"] == {"cpu": "4", "memory": "8000M"}
    assert spec["volumes"][0]["persistentVolumeClaim"] == {"claimName": "bench"}
