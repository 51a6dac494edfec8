"""What really runs is in the fingerprint: jobs are run, and every function they call is looked for in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_project import ROOT

from tangentbench.config import load_settings
from tangentbench.datasets.prepare import load_recipes
from tangentbench.paths import Paths
from tangentbench.suite.catalogue import load_catalogue
from tangentbench.suite.fingerprint import words_in
from tangentbench.suite.fingerprint.boundary import is_outside
from tangentbench.suite.workflow import Wiring

SECONDS = 2
FINISHING = ("npk_fig1", "conditioning_table_mu", "conditioning_fig2", "bounds_atlas")
CUT_OFF = ("conditioning_fig6", "npk_theorem5_1", "npk_gates", "npk_fig6")
"""They go on for longer than the test waits; what they call until then is most of it."""
DATASETS = ("mnist5k_binary_7x7", "photographs2", "teacher_50_10")
FEWEST = 10
"""A job that called fewer functions of the package was not followed."""


@pytest.fixture(scope="module")
def called() -> dict[str, set[str]]:
    jobs = [*(f"dataset {one}" for one in DATASETS), "tile", *(f"measure {one}" for one in (*FINISHING, *CUT_OFF))]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("called_functions.py")), str(SECONDS), *jobs],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests' / 'support'}"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {job: set(names) for job, names in json.loads(done.stdout).items()}


@pytest.fixture(scope="module")
def wiring() -> Wiring:
    paths = Paths(ROOT)
    return Wiring(load_catalogue(paths), load_settings(paths), load_recipes(paths), paths)


def assert_covered(names: set[str], keys: set[str]) -> None:
    known = {key.partition("[")[0] for key in keys}
    assert sorted(name for name in names - known if not is_outside(name)) == []


@pytest.mark.parametrize("artifact", [*FINISHING, *CUT_OFF])
def test_what_a_study_calls_is_in_its_fingerprint(called: dict[str, set[str]], wiring: Wiring, artifact: str) -> None:
    datasets = bool(wiring.catalogue.artifact(artifact).datasets_at("quick"))
    closure = wiring.fingerprints.measure_closure(artifact, wiring.study_words(artifact, "quick"), datasets)
    names = called[f"measure {artifact}"]
    assert len(names) >= FEWEST
    assert_covered(names, closure.keys)


@pytest.mark.parametrize("artifact", FINISHING)
def test_what_a_figure_calls_is_in_its_fingerprint(called: dict[str, set[str]], wiring: Wiring, artifact: str) -> None:
    assert called[f"figure {artifact}"]
    assert_covered(called[f"figure {artifact}"], wiring.fingerprints.figure_closure(artifact).keys)


@pytest.mark.parametrize("dataset", DATASETS)
def test_what_prepares_a_data_set_is_in_its_fingerprint(
    called: dict[str, set[str]], wiring: Wiring, dataset: str
) -> None:
    closure = wiring.fingerprints.step_closure("dataset", wiring.dataset_words(dataset))
    assert len(called[f"dataset {dataset}"]) >= FEWEST
    assert_covered(called[f"dataset {dataset}"], closure.keys)


def test_what_computes_a_tile_is_in_its_fingerprint(called: dict[str, set[str]], wiring: Wiring) -> None:
    closure = wiring.fingerprints.step_closure("gram_tile", words_in({"name": "cntk", "depth": 2, "pooling": "gap"}))
    assert len(called["tile"]) >= FEWEST
    assert_covered(called["tile"], closure.keys)
