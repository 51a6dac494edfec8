"""The neural-path-kernel study: what its artifacts measure, and the claims that are cheap to decide."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from tangentbench.claims import HELD, decide, evaluate
from tangentbench.config import SCALES
from tangentbench.errors import Diverged, UnknownName
from tangentbench.paths import Paths, find_root
from tangentbench.studies.npk.costs import memorisation as memorisation_work
from tangentbench.studies.npk.measure.memorisation import memorisation, steps_until
from tangentbench.studies.registry import Context, check_settings, figure_function, study_function
from tangentbench.suite.catalogue import load_catalogue

THEORY = ("npk_fig1", "npk_fig5")
TRAINED = "npk_fig6"
TINY = {
    "widths": [8, 64],
    "depths": [2, 4, 6],
    "examples": 20,
    "gate_probability": 0.5,
    "weight_law": "bernoulli",
    "runs": 3,
    "step": 0.1,
    "step_rule": "measured",
    "kernel_over_depth": False,
    "steps": 120,
    "records": 30,
    "stop_below": 1e-6,
    "converged_below": 0.01,
    "precision": "float64",
}


@pytest.fixture(scope="module")
def catalogue():
    return load_catalogue(Paths(find_root()))


@pytest.fixture(scope="module")
def theory_tables(catalogue):
    artifacts = (catalogue.artifact(name) for name in THEORY)
    return {one.name: study_function(one)(Context(seed=0), **one.settings_at("quick")) for one in artifacts}


@pytest.fixture(scope="module")
def tiny() -> pd.DataFrame:
    return memorisation(Context(seed=0), **TINY)


@pytest.mark.parametrize("name", [*THEORY, TRAINED])
def test_settings_are_the_parameters(catalogue, name):
    artifact = catalogue.artifact(name)
    for scale in SCALES:
        check_settings(study_function(artifact), artifact.settings_at(scale), "npk.yaml", name)


@pytest.mark.parametrize("name", THEORY)
def test_claims_of_theory_hold(catalogue, theory_tables, name):
    artifact = catalogue.artifact(name)
    verdicts = [decide(claim, artifact, "quick", theory_tables[name]) for claim in artifact.claims]
    assert [(one.claim.name, one.reason) for one in verdicts if one.state != HELD] == []


def test_printed_numbers_of_figure_1_are_ours(catalogue, theory_tables):
    for printed in catalogue.artifact("npk_fig1").paper_values:
        assert evaluate(printed.measure, theory_tables["npk_fig1"]) == [printed.value]


def test_examples_1_and_2_share_exactly_p3_and_p12(theory_tables):
    table = theory_tables["npk_fig1"]
    activity = table[table["quantity"] == "activity"].pivot(index="example", columns="path", values="value")
    shared = activity.columns[(activity.loc[1] * activity.loc[2]) > 0]
    assert shared.tolist() == [3, 12]


@pytest.mark.parametrize("name", THEORY)
def test_theory_is_drawn(catalogue, theory_tables, name, tmp_path: Path):
    artifact = catalogue.artifact(name)
    drawn = figure_function(artifact)(theory_tables[name], artifact)
    assert isinstance(drawn, Figure)
    drawn.savefig(tmp_path / "figure.png")


def test_training_is_drawn(catalogue, tiny, tmp_path: Path):
    artifact = catalogue.artifact(TRAINED)
    drawn = figure_function(artifact)(tiny, artifact)
    assert [len(axis.lines) > 0 for axis in drawn.axes] == [True] * 4
    drawn.savefig(tmp_path / "figure.png")


def test_every_run_starts_at_one_and_learns(tiny):
    errors = tiny[tiny["quantity"] == "error ratio"]
    assert (errors.loc[errors["step"] == 0, "value"] == 1).all()
    last = errors.sort_values("step").groupby(["width", "depth", "seed"])["value"].last()
    assert len(last) == 2 * 3 * 3
    assert (last < 1).all()


def test_spectrum_has_the_trace_of_the_kernel_and_nears_the_ideal_with_width(tiny):
    sums = tiny[tiny["quantity"] == "cumulated eigenvalue"]
    ends = sums[sums["index"] == 20].groupby("width")["value"].mean()
    assert ends[64] == pytest.approx(20, rel=0.2)
    distance = tiny[tiny["quantity"] == "ecdf distance"].groupby("width")["value"].mean()
    assert distance[64] < distance[8] / 1.5


def test_early_error_follows_the_kernel(tiny):
    """For small times e_t = (1 - alpha K_0)^t e_0 (eq. 14): a wide network's first step shrinks no faster than 0.9."""
    first = tiny[(tiny["quantity"] == "error ratio") & (tiny["step"] == 1)]["value"]
    assert ((first > 0.9**2 - 0.02) & (first < 1)).all()


def test_same_seed_same_table_and_other_seed_another(tiny):
    pd.testing.assert_frame_equal(tiny, memorisation(Context(seed=0), **TINY))
    other = memorisation(Context(seed=1), **TINY)
    assert not tiny["value"].equals(other["value"])


def test_killed_study_goes_on_with_the_same_numbers(tiny, tmp_path: Path, monkeypatch):
    from tangentbench.studies.npk.measure import memorisation as module

    trained = 0
    whole_training = module.train

    def killed_training(*arguments, **options):
        nonlocal trained
        trained += 1
        if trained == 4:
            raise KeyboardInterrupt
        return whole_training(*arguments, **options)

    monkeypatch.setattr(module, "train", killed_training)
    context = Context(seed=0, work=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        memorisation(context, **TINY)
    monkeypatch.undo()
    assert len(list(tmp_path.glob("*.npz"))) == 3
    pd.testing.assert_frame_equal(tiny, memorisation(context, **TINY))


def test_other_readings_of_the_step_change_it():
    settings = {**TINY, "widths": [8], "depths": [4], "steps": 5, "records": 6}

    def last(**changes):
        table = memorisation(Context(seed=0), **{**settings, **changes})
        errors = table[(table["quantity"] == "error ratio") & (table["step"] == 5)]
        return errors["value"].mean()

    assert last(kernel_over_depth=True) < last() < 1
    assert last(step_rule="expected") != last()


def test_bad_settings_are_named():
    with pytest.raises(UnknownName, match="step rule 'guessed'"):
        memorisation(Context(seed=0), **{**TINY, "step_rule": "guessed"})
    with pytest.raises(UnknownName, match="precision 'float16'"):
        memorisation(Context(seed=0), **{**TINY, "precision": "float16"})
    with pytest.raises(Diverged, match="width 8, depth 4"):
        memorisation(Context(seed=0), **{**TINY, "widths": [8], "depths": [4], "step": 500.0})


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [([1.0, 0.1, 0.001], 15.0), ([1.0, 0.5, 0.2], 20.0), ([0.005, 0.1, 0.1], 0.0)],
    ids=["between records", "never: a lower bound", "at once"],
)
def test_steps_until(ratios, expected):
    assert steps_until(0.01, np.array([0, 10, 20]), np.array(ratios)) == pytest.approx(expected)


def test_work_grows_with_width_and_runs():
    def gflop(**changes):
        return memorisation_work(**{**TINY, "precision": "float32", **changes}).units["network_gflop"]

    assert gflop(runs=6) == pytest.approx(2 * gflop())
    assert gflop(widths=[8]) < gflop(widths=[16])
