"""The image as an Apptainer file: `snakemake --sdm apptainer` runs every rule in it and gives the host's numbers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from image_engine import IMAGE, Engine, missing_tools
from small_project import Project

APPTAINER_MISSING = "needs apptainer: Debian 12 has no package of it (docs/containers.md)"

pytestmark = [
    pytest.mark.image,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason=APPTAINER_MISSING),
    pytest.mark.skipif(bool(missing_tools()), reason=missing_tools() or "the tools are here"),
    pytest.mark.timeout(1800),
]

TABLE = "results/quick/mine/mine_fig1.parquet"


@pytest.fixture(scope="module")
def image_file(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("apptainer")
    archive = folder / "image.tar"
    engine.must("podman", "save", "--quiet", "--format", "oci-archive", "--output", str(archive), IMAGE, timeout=600)
    image = folder / "tangentbench.sif"
    done = subprocess.run(
        ["apptainer", "build", str(image), f"oci-archive:{archive}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    archive.unlink()
    return image


def test_every_rule_runs_in_the_image(image_file: Path, project: Project, built_project: Project) -> None:
    for core in (project.root / "src").rglob("*.so"):
        core.unlink()
    settings = ["--config", f"container={image_file}", "--sdm", "apptainer", "--apptainer-args=--no-privs"]
    done = project.snakemake(*settings)
    assert done.returncode == 0, done.stderr[-4000:]
    assert project.results() >= built_project.results()
    pd.testing.assert_frame_equal(
        pd.read_parquet(project.root / TABLE), pd.read_parquet(built_project.root / TABLE), rtol=1e-9
    )


def test_checkouts_code_runs_with_the_images_core(image_file: Path, project: Project) -> None:
    for core in (project.root / "src").rglob("*.so"):
        core.unlink()
    script = "from tangentbench.kernels import native; print(native.__file__, native.describe()['library'])"
    inside = f'cd {project.root} && PYTHONPATH=$PWD/src python -c "{script}"'
    call = ["apptainer", "exec", "--no-privs", "--bind", str(project.root), str(image_file), "sh", "-c", inside]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    module, library = done.stdout.split()
    assert Path(module).is_relative_to(project.root)
    assert library == "/suite/src/tangentbench/kernels/_cntk_core.so"
