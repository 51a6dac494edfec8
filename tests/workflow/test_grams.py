"""Gram matrices through Snakemake: a tile is a job, and what is lost or damaged comes back alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from small_project import Project, copy_project

pytestmark = pytest.mark.pipeline

GRAMS = """
grams:
  small:
    title: Five tiles
    kernel: {name: cntk, depth: 3, pooling: flatten}
    images: {train: 20, test: 10, side: 8, pixels: standardised, subset: balanced}
    dataset: photographs
    tile: 10
    scales: {quick: {}, cpu: {}, paper: {}}
"""


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = copy_project(tmp_path_factory.mktemp("grams") / "project")
    (project.root / "config/grams.yaml").write_text(GRAMS)
    done = project.snakemake("gram_small")
    assert done.returncode == 0, done.stderr
    return project


def tiles(project: Project) -> dict[str, bytes]:
    folder = project.root / "results/quick/grams"
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("tiles/*.npy"))}


def test_a_target_computes_and_certifies_a_matrix(computed: Project) -> None:
    assert len(tiles(computed)) == 3 + 2
    files = sorted((computed.root / "results/quick/grams").rglob("certificate.json"))
    assert [file.parent.name for file in files] == ["test", "train"]
    for file in files:
        certificate = json.loads(file.read_text())
        assert certificate["second_backend"]["relative_to_largest_entry"] < 1e-5
    assert "Nothing to be done" in dry(computed)


def dry(project: Project) -> str:
    done = project.snakemake("--dry-run", "gram_small")
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_lost_and_damaged_tiles_come_back_alone(computed: Project, tmp_path: Path) -> None:
    shutil.copytree(computed.root, tmp_path / "copy")
    copy = Project(tmp_path / "copy")
    whole = tiles(copy)
    (folder,) = (copy.root / "results/quick/grams").rglob("train/tiles")
    (folder / "00000-00000.npy").unlink()
    damaged = folder / "00001-00000.npy"
    content = bytearray(damaged.read_bytes())
    content[150] ^= 1
    damaged.write_bytes(content)
    kept = (folder / "00001-00001.npy").stat().st_mtime_ns
    done = copy.snakemake("--cores", "1", "gram_small")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Finished jobid") == 3, "one tile, one certificate, the target"
    assert "00001-00000.npy does not have its checksum" in done.stderr
    assert tiles(copy) == whole
    assert (folder / "00001-00001.npy").stat().st_mtime_ns == kept
    assert "Nothing to be done" in dry(copy)


def test_one_process_gives_the_bytes_of_many(computed: Project, tmp_path: Path) -> None:
    shutil.copytree(computed.root, tmp_path / "copy", ignore=shutil.ignore_patterns("results", ".snakemake"))
    copy = Project(tmp_path / "copy")
    done = copy.snakemake("--cores", "1", "gram_small")
    assert done.returncode == 0, done.stderr
    assert tiles(copy) == tiles(computed)
