"""A Gram matrix of 16 tiles through a real Slurm: one submission is killed, the bytes are those of one machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from slurm_node import SlurmNode, why_not
from small_project import Project, copy_project

from tangentbench.datasets import save_dataset
from tangentbench.datasets.prepare.pipeline import prepare
from tangentbench.gram import steps as gram_jobs
from tangentbench.gram.identity import key
from tangentbench.paths import Paths
from tangentbench.suite.catalogue import load_catalogue
from tangentbench.suite.gram_plans import Grams
from tangentbench.suite.job_identity import tile_code

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.pipeline,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

GRAMS = """
grams:
  small:
    title: A test matrix of 4 by 4 tiles
    kernel: {name: cntk, depth: 3, pooling: gap}
    images: {train: 40, test: 40, side: 8, pixels: standardised, subset: balanced}
    dataset: photographs
    tile: 10
    scales: {quick: {}, cpu: {}, paper: {}}
"""
INPUTS = "photographs-train40-test40-side8-standardised-balanced0"
KEY = key({"name": "cntk", "depth": 3, "pooling": "gap"})
TARGET = f"results/quick/grams/{INPUTS}/{KEY}/test/certificate.json"
TILES_A_SUBMISSION = 4
SNAKEMAKE = [
    *("snakemake", "--profile", "workflow/profiles/slurm", "--group-components", f"small_tile={TILES_A_SUBMISSION}"),
    # no accounting here, and no reason to wait as long as on a cluster
    *("--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "1"),
    *("--seconds-between-status-checks", "1", "--latency-wait", "10"),
    # no submission may ask for more than the machine has
    *("--cores", "2", "--verbose"),
]
PATIENCE_SECONDS = 700
"""A minute or so on an idle machine; this one may be shared."""


def tiles(root: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((root / "results/quick/grams").rglob("test/tiles/*.npy"))}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same matrix, computed by this process."""
    project = copy_project(tmp_path_factory.mktemp("local") / "project")
    (project.root / "config/grams.yaml").write_text(GRAMS)
    paths = Paths(project.root)
    save_dataset(
        prepare("photographs", paths, mirror=None, seed=0, progress=False),
        paths.dataset("photographs"),
        paths.dataset_provenance("photographs"),
    )
    plan = Grams.at(paths, load_catalogue(paths), "quick").plan("small", "cntk")
    gram_jobs.prepare_inputs(paths, plan, "quick", 0)
    gram_jobs.create_store(paths, plan, "test", "quick", tile_code(plan))
    for tile in plan.tiles("test"):
        gram_jobs.compute_tile(paths, plan, "test", tile, "quick", threads=1)
    return project


def start(project: Project, node: SlurmNode, log: Path) -> subprocess.Popen[bytes]:
    path = f"{Path(shutil.which('python') or '').parent}"
    environment = {**os.environ, **node.environment, "PYTHONPATH": str(project.root / "src")}
    environment["PATH"] = f"{environment['PATH']}:{path}"
    with log.open("wb") as stream:
        return subprocess.Popen(
            [*SNAKEMAKE, "--", TARGET],
            cwd=project.root,
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def wait_for_tiles(project: Project, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when the first tiles are there and others are to come."""
    begin = time.monotonic()
    while not tiles(project.root):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() - begin < PATIENCE_SECONDS, log.read_text()
        time.sleep(0.1)
    assert len(tiles(project.root)) < 16


def test_sixteen_tiles_one_submission_killed(local: Project, tmp_path: Path) -> None:
    project, log = Project(tmp_path / "project"), tmp_path / "snakemake.log"
    shutil.copytree(local.root, project.root, symlinks=True, ignore=shutil.ignore_patterns("results"))
    with SlurmNode(tmp_path / "slurm") as node:
        process = start(project, node, log)
        try:
            wait_for_tiles(project, process, log)
            (killed, *_) = node.jobs("RUNNING")
            asked = node.field_of(killed, "MinMemoryNode")
            node.run("scancel", killed)
            code = process.wait(timeout=PATIENCE_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        assert code == 0, log.read_text()
        finished = node.jobs("COMPLETED")
        memory = {job: node.field_of(job, "MinMemoryNode") for job in finished}
        cancelled = node.jobs("CANCELLED")
    assert cancelled == [killed]
    # the start, four submissions of four tiles, the certificate
    assert len(finished) == 1 + 16 // TILES_A_SUBMISSION + 1, memory
    assert megabytes(asked) * 2 in map(megabytes, memory.values()), "the retry asks for twice the memory"
    assert tiles(project.root) == tiles(local.root)
    assert len(tiles(project.root)) == 16
    assert (project.root / TARGET).is_file()


def megabytes(text: str) -> int:
    """4000M or 4G as scontrol prints it."""
    number, unit = float(text[:-1]), text[-1]
    return round(number * {"M": 1, "G": 1024}[unit])
