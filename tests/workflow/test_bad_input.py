"""Every mistake gets one clear sentence with what to do, a non-zero exit, and nothing half-written."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from small_project import Project

pytestmark = pytest.mark.pipeline


CATALOGUE = "src/tangentbench/studies/mine/catalogue.yaml"


def replace_in(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def assert_fails(done: subprocess.CompletedProcess[str], *words: str) -> None:
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert "Traceback" not in said, said
    for word in words:
        assert word in said, said


def test_unknown_target(project: Project) -> None:
    assert_fails(project.tangentbench("run", "mine_fig11"), "unknown target 'mine_fig11'", "did you mean mine_fig1")
    assert_fails(project.snakemake("mine_fig11"), "mine_fig11")
    assert not project.results()


def test_unknown_scale(project: Project) -> None:
    assert_fails(project.snakemake("--config", "scale=huge"), "huge", "quick")
    assert_fails(project.tangentbench("run", "--scale", "huge"), "huge", "quick")


def test_unknown_key_on_the_command_line(project: Project) -> None:
    assert_fails(project.snakemake("--config", "sale=cpu"), "unknown key sale", "scale")


def test_unknown_key_in_the_catalogue(project: Project) -> None:
    replace_in(
        project.root / CATALOGUE,
        "    kind: figure\n",
        "    kind: figure\n    colour: red\n",
    )
    for done in (project.snakemake(), project.tangentbench("list")):
        assert_fails(done, CATALOGUE, "mine_fig1", "unknown key colour")


def test_malformed_yaml(project: Project) -> None:
    replace_in(project.root / CATALOGUE, "study: mine", "study: [mine")
    for done in (project.snakemake(), project.tangentbench("list")):
        assert_fails(done, CATALOGUE, "line ", "not valid YAML")


def test_unknown_setting(project: Project) -> None:
    replace_in(project.root / CATALOGUE, "samples: 20", "sample: 20")
    assert_fails(project.snakemake("mine_fig1"), CATALOGUE, "unknown setting sample", "samples")
    assert not project.results()


def test_unknown_dataset(project: Project) -> None:
    replace_in(
        project.root / CATALOGUE,
        "    kind: figure\n",
        "    kind: figure\n    datasets: [mnst]\n",
    )
    assert_fails(project.snakemake("mine_fig1"), "unknown data set 'mnst'", "mnist")


def test_no_network(project: Project) -> None:
    replace_in(
        project.root / CATALOGUE,
        "    kind: figure\n",
        "    kind: figure\n    datasets: [mnist]\n",
    )
    done = project.snakemake("mine_fig1", http_proxy="http://127.0.0.1:9", https_proxy="http://127.0.0.1:9")
    assert_fails(done, "mnist", "TANGENTBENCH_DATA")
    assert not project.results()
    assert not list((project.root / "data").glob("*.npz"))


def test_altered_data_file(project: Project, tmp_path: Path) -> None:
    replace_in(
        project.root / CATALOGUE,
        "    kind: figure\n",
        "    kind: figure\n    datasets: [mnist]\n",
    )
    mirror = tmp_path / "mirror" / "mnist"
    mirror.mkdir(parents=True)
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (mirror / f"{name}-ubyte.gz").write_bytes(b"not the published bytes")
    done = project.snakemake("mine_fig1", TANGENTBENCH_DATA=str(mirror.parent))
    assert_fails(done, "ubyte.gz")
    assert not list((project.root / "data").glob("*.npz"))


def test_diverging_study_says_step_and_setting(project: Project) -> None:
    study = project.root / "src/tangentbench/studies/mine/measure.py"
    diverge = '    from tangentbench.errors import Diverged\n    raise Diverged("the loss", 7, "step size 3")\n'
    replace_in(study, "    rows = []\n", diverge)
    assert_fails(project.snakemake("mine_fig1"), "the loss became NaN or infinite at step 7 with step size 3")
    assert not project.results()


def test_full_disk(project: Project) -> None:
    """A file-size limit of the process stands in for a full disk: the write fails half-way."""
    limited = "ulimit -f 1; exec python -m tangentbench.suite.steps measure mine_fig1 widths=64 --scale quick"
    replace_in(project.root / CATALOGUE, "runs: 5", "runs: 5000")
    done = project.run("bash", "-c", limited)
    assert_fails(done, "cannot write", "widths=64.parquet")
    assert not project.results()


@pytest.mark.skipif(os.geteuid() == 0 and not os.access("/usr/bin/setpriv", os.X_OK), reason="root, and no setpriv")
def test_read_only_results(project: Project) -> None:
    (project.root / "results").mkdir()
    (project.root / "results").chmod(0o555)
    call = ["python", "-m", "tangentbench.suite.steps", "measure", "mine_fig1", "widths=64", "--scale", "quick"]
    if os.geteuid() == 0:
        call = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", *call]
    assert_fails(project.run(*call), "cannot write", "permission")


def test_damaged_table(built_project: Project, tmp_path: Path) -> None:
    shutil.copytree(built_project.root, tmp_path / "copy")
    copy = Project(tmp_path / "copy")
    table = copy.root / "results/quick/mine/mine_fig1.parquet"
    table.write_bytes(table.read_bytes()[:100])
    assert_fails(copy.tangentbench("check"), "mine_fig1.parquet", "delete it and run again")
    table.unlink()
    assert copy.tangentbench("run").returncode == 0
    assert copy.tangentbench("check").returncode == 0


def test_second_run_in_one_folder(project: Project) -> None:
    lock = project.root / ".snakemake" / "tangentbench.lock"
    lock.parent.mkdir()
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert_fails(project.tangentbench("run"), "another `tangentbench run` works in this folder")


def test_lock_of_a_killed_snakemake_is_cleared(project: Project) -> None:
    locks = project.root / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    (locks / "0.output.lock").write_text(str(project.root / "results/quick/mine/mine_fig1.parquet") + "\n")
    done = project.tangentbench("run", "mine_fig1")
    assert done.returncode == 0, done.stderr


def test_outside_a_checkout(project: Project, tmp_path: Path) -> None:
    assert_fails(project.tangentbench("list", TANGENTBENCH_HOME=str(tmp_path)), "no tangentbench checkout")
