"""The image, built and run for real where the tools are: its commands, its numbers, and what must not be in it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from image_engine import COMMIT, IMAGE, MOUNTED_SETTINGS, Engine, missing_tools
from small_project import copy_checkout

from tangentbench import __version__
from tangentbench.kernels._backends import native

pytestmark = [
    pytest.mark.image,
    pytest.mark.skipif(bool(missing_tools()), reason=missing_tools() or "the tools are here"),
    pytest.mark.timeout(1800),
]

ARTIFACT, STUDY = "cntk_vanilla_full", "cntk"
"""Goes through the native core, the Gram store, the regression and a figure in some twenty seconds."""
RELATIVE_TOLERANCE = 1e-6
"""Same core, same packages: only the order of sums in another BLAS thread layout may differ."""


@pytest.fixture(scope="session")
def facts(engine: Engine) -> dict[str, Any]:
    return json.loads(engine.must("podman", "inspect", "--type", "image", IMAGE))[0]  # type: ignore[no-any-return]


def test_labels_name_version_and_commit(facts: dict[str, Any]) -> None:
    labels = facts["Labels"]
    assert labels["org.opencontainers.image.version"] == __version__
    assert labels["org.opencontainers.image.revision"] == COMMIT


def test_user_is_not_root_and_nothing_polls(engine: Engine, facts: dict[str, Any]) -> None:
    assert facts["Config"]["User"] == "10001:10001"
    assert not facts.get("HealthCheck") and not facts["Config"].get("Healthcheck")
    assert engine.run("id", "-u").stdout.strip() == "10001"


def test_doctor_runs_and_finds_the_same_core(engine: Engine) -> None:
    done = engine.run("doctor", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["versions"]["tangentbench"] == __version__
    assert report["compute"]["device"] == "cpu"
    for name in native.instruction_sets():
        assert name in report["compute"]["native core"]


def test_entry_point_runs_tangentbench_or_any_command(engine: Engine) -> None:
    assert __version__ in engine.run("--version").stdout
    assert ARTIFACT in engine.run("list").stdout
    assert engine.run("python", "-c", "print(6 * 7)").stdout.strip() == "42"
    assert engine.run("snakemake", "--version").returncode == 0
    assert engine.run("no-such-thing").returncode != 0


def test_no_subcommand_is_hidden_by_a_program(engine: Engine) -> None:
    from tangentbench.cli.main import COMMANDS

    for name in COMMANDS:
        assert engine.run("sh", "-c", f"command -v {name}").returncode != 0, name


def test_every_instruction_set_gives_the_same_kernel(engine: Engine) -> None:
    script = (
        "import numpy as np; from tangentbench.kernels import cntk;"
        "x = np.random.default_rng(0).random((5, 8, 8, 3), dtype=np.float32);"
        "print(cntk(x, depth=4, progress=False).tolist())"
    )
    values = []
    for name in native.instruction_sets():
        done = engine.run("python", "-c", script, options=["--env", f"TANGENTBENCH_INSTRUCTION_SET={name}"])
        assert done.returncode == 0, done.stderr
        values.append(np.array(json.loads(done.stdout)))
    for other in values[1:]:
        np.testing.assert_allclose(other, values[0], rtol=1e-5)


def test_nothing_of_the_build_is_left(engine: Engine) -> None:
    listing = engine.run("find", "/", "-xdev", options=["--user", "0"]).stdout
    files = listing.splitlines()
    assert "/suite/Snakefile" in files
    assert any(file.endswith("torch/__pycache__/__init__.cpython-311.pyc") for file in files)
    homes = {line.split(":")[5] for line in engine.run("cat", "/etc/passwd").stdout.splitlines()}
    assert "/home/bench" in homes
    caches = (*(f"{home}/.cache/" for home in homes), "/var/lib/apt/lists/", "/var/cache/apt/archives/")
    assert not [file for file in files if file.startswith(caches)]
    assert not [file for file in files if file.startswith(("/suite/.git", "/suite/.venv", "/suite/tests"))]
    assert not [file for file in files if file.endswith(("/g++", "/cc1plus"))]


def test_no_setting_of_the_host_is_in_it(engine: Engine) -> None:
    assert engine.run("sh", "-c", f"ls -A {MOUNTED_SETTINGS}").stdout.strip() == ""
    assert engine.run("cat", "/etc/pip.conf").stdout.strip() == ""
    assert engine.run("sh", "-c", "env | grep -i -E 'proxy|index|cert'").stdout == ""


def test_numbers_are_the_hosts(engine: Engine, tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir(mode=0o777)
    results.chmod(0o777)
    volume = ["--volume", f"{results}:/suite/results"]
    done = engine.run("run", ARTIFACT, "--cores", "2", options=volume)
    assert done.returncode == 0, done.stderr[-4000:]
    host = copy_checkout(tmp_path / "host")
    own = host.snakemake(ARTIFACT)
    assert own.returncode == 0, own.stderr[-4000:]
    inside, outside = (folder / "quick" / STUDY for folder in (results, host.root / "results"))
    assert (inside / f"{ARTIFACT}.png").stat().st_size > 0
    pd.testing.assert_frame_equal(
        pd.read_parquet(inside / f"{ARTIFACT}.parquet").pipe(without_times),
        pd.read_parquet(outside / f"{ARTIFACT}.parquet").pipe(without_times),
        rtol=RELATIVE_TOLERANCE,
    )
    record = json.loads((inside / f"{ARTIFACT}.json").read_text(encoding="utf-8"))
    assert record["commit"] == COMMIT


def without_times(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns=[name for name in table if "second" in name])  # type: ignore[operator]


def test_any_user_can_write_results(engine: Engine, tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    os.chown(results, 4242, 4242)
    options = ["--user", "4242:4242", "--volume", f"{results}:/suite/results"]
    done = engine.run("run", "conditioning_table_mu", "--cores", "1", options=options)
    assert done.returncode == 0, done.stderr[-4000:]
    written = results / "quick" / "conditioning" / "conditioning_table_mu.csv"
    assert written.stat().st_uid == 4242
