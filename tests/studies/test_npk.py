"""The neural-path-kernel study: what its artifacts measure, and the claims that are cheap to decide."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from tangentbench.claims import HELD, decide, evaluate
from tangentbench.errors import Diverged, InvalidConfig
from tangentbench.identity import WorkFolder
from tangentbench.paths import Paths, find_root
from tangentbench.studies.npk.costs import memorisation as memorisation_work
from tangentbench.studies.npk.measure.memorisation import memorisation, steps_until
from tangentbench.studies.npk.settings import Memorisation
from tangentbench.studies.registry import Context, figure_function, on_settings, study_function
from tangentbench.studies.settings import read_settings
from tangentbench.suite.catalogue import load_catalogue

THEORY = ("npk_fig1", "npk_fig5")
TRAINED = "npk_fig6"
TINY: dict[str, Any] = {
    "widths": [8, 64],
    "depths": [2, 4, 6],
    "examples": 20,
    "gate_probability": 0.5,
    "weight_distribution": "bernoulli",
    "runs": 3,
    "converged_below": 0.01,
    "precision": "float64",
}
DESCENT: dict[str, Any] = {
    "learning_rate_times_rho_max": 0.1,
    "rho_max": "measured",
    "kernel_over_depth": False,
    "steps": 120,
    "records": 30,
    "stop_below": 1e-6,
}
FILE = "src/tangentbench/studies/npk/catalogue.yaml"


def fig6(descent: dict[str, Any] | None = None, **changes: Any) -> Memorisation:
    raw = {**TINY, "descent": {**DESCENT, **(descent or {})}, **changes}
    return read_settings(Memorisation, raw, FILE, "artifacts.npk_fig6.settings")


@pytest.fixture(scope="module")
def catalogue() -> Any:
    return load_catalogue(Paths(find_root()))


@pytest.fixture(scope="module")
def theory_tables(catalogue: Any) -> Any:
    artifacts = (catalogue.artifact(name) for name in THEORY)
    return {
        one.name: on_settings(study_function(one), one, one.settings_at("quick"), Context(seed=0)) for one in artifacts
    }


@pytest.fixture(scope="module")
def tiny() -> pd.DataFrame:
    return memorisation(Context(seed=0), fig6())


@pytest.mark.parametrize("name", THEORY)
def test_claims_of_theory_hold(catalogue: Any, theory_tables: Any, name: Any) -> None:
    artifact = catalogue.artifact(name)
    verdicts = [decide(claim, artifact, "quick", theory_tables[name]) for claim in artifact.claims]
    assert [(one.claim.name, one.reason) for one in verdicts if one.state != HELD] == []


def test_printed_numbers_of_figure_1_are_ours(catalogue: Any, theory_tables: Any) -> None:
    for printed in catalogue.artifact("npk_fig1").paper_values:
        assert evaluate(printed.measure, theory_tables["npk_fig1"]) == [printed.value]


def test_examples_1_and_2_share_exactly_p3_and_p12(theory_tables: Any) -> None:
    table = theory_tables["npk_fig1"]
    activity = table[table["quantity"] == "activity"].pivot(index="example", columns="path", values="value")
    shared = activity.columns[(activity.loc[1] * activity.loc[2]) > 0]
    assert shared.tolist() == [3, 12]


@pytest.mark.parametrize("name", THEORY)
def test_theory_is_drawn(catalogue: Any, theory_tables: Any, name: Any, tmp_path: Path) -> None:
    artifact = catalogue.artifact(name)
    drawn = figure_function(artifact)(theory_tables[name], artifact)
    assert isinstance(drawn, Figure)
    drawn.savefig(tmp_path / "figure.png")


def test_training_is_drawn(catalogue: Any, tiny: pd.DataFrame, tmp_path: Path) -> None:
    artifact = catalogue.artifact(TRAINED)
    drawn = figure_function(artifact)(tiny, artifact)
    assert [len(axis.lines) > 0 for axis in drawn.axes] == [True] * 4
    drawn.savefig(tmp_path / "figure.png")


def test_every_run_starts_at_one_and_learns(tiny: pd.DataFrame) -> None:
    errors = tiny[tiny["quantity"] == "error ratio"]
    assert (errors.loc[errors["step"] == 0, "value"] == 1).all()
    last = errors.sort_values("step").groupby(["width", "depth", "seed"])["value"].last()
    assert len(last) == 2 * 3 * 3
    assert (last < 1).all()


def test_spectrum_has_the_trace_of_the_kernel_and_nears_the_ideal_with_width(tiny: pd.DataFrame) -> None:
    sums = tiny[tiny["quantity"] == "cumulated eigenvalue"]
    ends = sums[sums["index"] == 20].groupby("width")["value"].mean()
    assert ends[64] == pytest.approx(20, rel=0.2)
    distance = tiny[tiny["quantity"] == "ecdf distance"].groupby("width")["value"].mean()
    assert distance[64] < distance[8] / 1.5


def test_early_error_follows_the_kernel(tiny: pd.DataFrame) -> None:
    """For small times e_t = (1 - alpha K_0)^t e_0 (eq. 14): a wide network's first step shrinks no faster than 0.9."""
    first = tiny[(tiny["quantity"] == "error ratio") & (tiny["step"] == 1)]["value"]
    assert ((first > 0.9**2 - 0.02) & (first < 1)).all()


def test_same_seed_same_table_and_other_seed_another(tiny: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(tiny, memorisation(Context(seed=0), fig6()))
    other = memorisation(Context(seed=1), fig6())
    assert not tiny["value"].equals(other["value"])


def test_killed_study_goes_on_with_the_same_numbers(
    tiny: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tangentbench.studies.npk.measure import memorisation as module

    trained = 0
    whole_training = module._train

    def killed_training(*arguments: Any, **options: Any) -> Any:
        nonlocal trained
        trained += 1
        if trained == 4:
            raise KeyboardInterrupt
        return whole_training(*arguments, **options)

    monkeypatch.setattr(module, "_train", killed_training)
    context = Context(seed=0, work=WorkFolder(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        memorisation(context, fig6())
    monkeypatch.undo()
    assert len(list(tmp_path.glob("*.npz"))) == 3
    pd.testing.assert_frame_equal(tiny, memorisation(context, fig6()))


def test_other_readings_of_the_learning_rate_change_it() -> None:
    def last(**changes: Any) -> Any:
        settings = fig6({"steps": 5, "records": 6, **changes}, widths=[8], depths=[4])
        table = memorisation(Context(seed=0), settings)
        errors = table[(table["quantity"] == "error ratio") & (table["step"] == 5)]
        return errors["value"].mean()

    assert last(kernel_over_depth=True) < last() < 1
    assert last(rho_max="expected") != last()


def test_divergence_is_named() -> None:
    with pytest.raises(Diverged, match="width 8, depth 4"):
        memorisation(Context(seed=0), fig6({"learning_rate_times_rho_max": 500.0}, widths=[8], depths=[4]))


@pytest.mark.parametrize(
    ("artifact", "change", "key", "reason"),
    [
        ("npk_fig1", {"inputs": [[1.0, 0.5], [0.5], [-1.0, 1.0]]}, "inputs", "same number of inputs"),
        ("npk_fig1", {"gates": [[[1]]]}, "gates", "3 examples need as many lists of gates, not 1"),
        ("npk_fig1", {"gates": [[[1]], [[0]], [[1, 1]]]}, "gates", "same number of gates in each layer"),
        ("npk_fig1", {"gates": [[[1]], [[2]], [[1]]]}, "gates[1][0][0]", "2 is not known here (allowed: 0, 1)"),
        ("npk_table2", {"rows": ["fc_sdg"]}, "rows[0]", "'fc_sdg' is not known here (allowed: fc_adam, fc_sgd, "),
        ("npk_table2", {"columns": ["relus"]}, "columns[0]", "'relus' is not known here (allowed: dnpfl, flnpf, "),
        ("npk_table2", {"flnpf_checkpoint": "best"}, "flnpf_checkpoint", "(allowed: best_test, last)"),
        ("npk_table2", {"fc": {"network": {"width": 0}}}, "fc.network.width", ">= 1"),
        ("npk_table2", {"conv": {"network": {"strides": 2}}}, "conv.network", "unknown setting strides (allowed: chan"),
        ("npk_fig3a", {"architecture": "fc"}, "architecture", "'fc' is not known here (allowed: gconv, vconv)"),
        ("npk_fig3a", {"checkpoint_epochs": []}, "checkpoint_epochs", "length >= 1"),
        ("npk_fig3b", {"training": {"optimiser": "adamm"}}, "training.optimiser", "(allowed: adam, rmsprop, sgd)"),
        ("npk_fig3c", {"outputs": "each"}, "outputs", "'each' is not known here"),
        ("npk_gates", {"modes": ["frozen"]}, "modes[0]", "'frozen' is not known here"),
        ("npk_theorem5_1", {"depths": [1]}, "depths[0]", ">= 2"),
        ("npk_theorem5_1", {"gates": "soft"}, "gates", "'soft' is not known here"),
        ("npk_fig5", {"gate_probability": 1.5}, "gate_probability", "< 1"),
        ("npk_fig6", {"descent": {"rho_max": "guessed"}}, "descent.rho_max", "'guessed' is not known here"),
        ("npk_fig6", {"precision": "float16"}, "precision", "'float16' is not known here"),
        ("npk_fig6", {"weight_distribution": "cauchy"}, "weight_distribution", "'cauchy' is not known here"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("npk") else "",
)
def test_a_wrong_setting_is_named_with_file_and_key(
    catalogue: Any, artifact: str, change: Any, key: str, reason: str
) -> None:
    entry = catalogue.artifact(artifact)
    changed = dataclasses.replace(entry, scales={"quick": {"settings": change}}, settings=entry.settings_at("quick"))
    with pytest.raises(InvalidConfig) as raised:
        on_settings(study_function(entry), entry, changed.settings_at("quick"), Context(seed=0))
    assert raised.value.file == FILE
    assert raised.value.key == f"artifacts.{artifact}.settings.{key}"
    assert reason in raised.value.reason


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [([1.0, 0.1, 0.001], 15.0), ([1.0, 0.5, 0.2], 20.0), ([0.005, 0.1, 0.1], 0.0)],
    ids=["between records", "never: a lower bound", "at once"],
)
def test_steps_until(ratios: Any, expected: float) -> None:
    assert steps_until(0.01, np.array([0, 10, 20]), np.array(ratios)) == pytest.approx(expected)


def test_work_grows_with_width_and_runs() -> None:
    def gflop(**changes: Any) -> Any:
        return memorisation_work(fig6(**{"precision": "float32", **changes})).units["network_gflop"]

    assert gflop(runs=6) == pytest.approx(2 * gflop())
    assert gflop(widths=[8]) < gflop(widths=[16])


def test_work_of_a_training_without_end_is_that_of_all_its_steps() -> None:
    endless, whole = (fig6({"stop_below": value}, widths=[64]) for value in (0.0, 1e-300))
    assert memorisation_work(endless) == memorisation_work(whole)
