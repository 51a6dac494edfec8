"""The image as an Apptainer file: `snakemake --sdm apptainer` runs every rule in it and gives the host's numbers."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from image_engine import COMMIT, IMAGE, Engine, missing_tools
from small_project import Project

from tangentbench import __version__

APPTAINER_MISSING = "needs apptainer: `tools/install_apptainer`, as root, puts it where Debian's archive can be reached"

pytestmark = [
    pytest.mark.image,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason=APPTAINER_MISSING),
    pytest.mark.skipif(bool(missing_tools()), reason=missing_tools() or "the tools are here"),
    pytest.mark.timeout(1800),
]

TABLE = Path("results/quick/mine/mine_fig1.parquet")
QUICKLY = ("--disable-cache", "--mksquashfs-args", "-comp zstd -Xcompression-level 1")
"""The file is used once: Apptainer's default, gzip at its best, takes many times as long."""
NO_PRIVS = "--no-privs"
"""Root of a container or of a small machine may lack capabilities, which Apptainer would ask for in vain."""


def apptainer(*words: Any, cwd: str | None = None, told: str = "") -> subprocess.CompletedProcess[str]:
    call = ["apptainer", *map(str, words)]
    return subprocess.run(call, cwd=cwd, input=told, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def image_file(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("apptainer")
    layers = folder / "layers"
    form = ["--format", "oci-dir", "--uncompressed"]
    engine.must("podman", "save", "--quiet", *form, "--output", str(layers), IMAGE, timeout=600)
    image = folder / "tangentbench.sif"
    done = apptainer("build", *QUICKLY, image, f"oci:{layers}")
    assert done.returncode == 0, done.stderr
    shutil.rmtree(layers)
    started = apptainer("exec", NO_PRIVS, image, "true")
    if started.returncode and "mount" in started.stderr:
        pytest.skip(f"this machine does not let Apptainer mount a file: {started.stderr.strip()[-300:]}")
    yield image
    image.unlink()


def test_file_runs_as_the_image_does(image_file: Path) -> None:
    assert __version__ in apptainer("run", NO_PRIVS, image_file, "--version").stdout
    labels = apptainer("inspect", "--labels", image_file).stdout
    assert f"org.opencontainers.image.version: {__version__}" in labels


@pytest.mark.parametrize("above", ["/tmp", "/var/tmp", "/usr/src", "/opt", "/root"])
def test_program_keeps_folder_words_input_and_exit_code(image_file: Path, above: str) -> None:
    script = 'pwd; cat; printf "<%s>" "$@"; echo told >&2; touch written; exit 7'
    with tempfile.TemporaryDirectory(dir=above, prefix="of the host ") as folder:
        words = ["a b", '$HOME "quoted"', ""]
        call = ["exec", NO_PRIVS, image_file, "sh", "-c", script, "sh", *words]
        done = apptainer(*call, cwd=folder, told="from outside\n")
        assert done.returncode == 7, done.stderr
        assert done.stdout == f"{folder}\nfrom outside\n" + "".join(f"<{word}>" for word in words)
        assert done.stderr.endswith("told\n")
        assert (Path(folder) / "written").is_file()


def test_every_rule_runs_in_the_image(image_file: Path, project: Project, built_project: Project) -> None:
    for core in (project.root / "src").rglob("*.so"):
        core.unlink()
    settings = ["--config", f"container={image_file}", "--sdm", "apptainer", f"--apptainer-args={NO_PRIVS}"]
    done = project.snakemake(*settings)
    assert done.returncode == 0, done.stderr[-4000:]
    assert project.results() >= built_project.results()
    record = json.loads((project.root / TABLE).with_suffix(".json").read_text(encoding="utf-8"))
    assert record["commit"] == COMMIT, "only the image knows this one"
    pd.testing.assert_frame_equal(
        pd.read_parquet(project.root / TABLE), pd.read_parquet(built_project.root / TABLE), rtol=1e-9
    )


def test_checkouts_code_runs_with_the_images_core(image_file: Path, project: Project) -> None:
    for core in (project.root / "src").rglob("*.so"):
        core.unlink()
    script = "from tangentbench.kernels._backends import native; print(native.__file__, native.describe()['library'])"
    inside = f'cd {project.root} && PYTHONPATH=$PWD/src python -c "{script}"'
    done = apptainer("exec", NO_PRIVS, "--bind", project.root, image_file, "sh", "-c", inside)
    assert done.returncode == 0, done.stderr
    module, library = done.stdout.split()
    assert Path(module).is_relative_to(project.root)
    assert library == "/suite/src/tangentbench/kernels/_cntk_core.so"
