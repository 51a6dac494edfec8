"""The trainings of Figures 1, 3, 4, 5, 7 and 8 on tiny networks: rows, choice of steps, sharing, claims, pictures."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from tangentbench.claims import FAILED, HELD, decide
from tangentbench.config import SCALES
from tangentbench.datasets.prepare.pipeline import prepare
from tangentbench.errors import InvalidConfig
from tangentbench.identity import WorkFolder
from tangentbench.paths import Paths, find_root
from tangentbench.studies.conditioning.measure import trainings
from tangentbench.studies.conditioning.measure.accuracy import accuracies
from tangentbench.studies.conditioning.measure.histories import RUN_QUANTITIES, epochs_to_reach, run_summary
from tangentbench.studies.conditioning.measure.training_key import training_key
from tangentbench.studies.conditioning.memory import run_bytes
from tangentbench.studies.conditioning.settings import Schedule, Trainings
from tangentbench.studies.registry import Context, figure_function, study_function
from tangentbench.studies.settings import read_settings
from tangentbench.suite.catalogue import load_catalogue
from tangentbench.training.optimisers import OPTIMISERS, StepDecay, StepDrops

PATHS = Paths(find_root())
FIGURES = tuple(f"conditioning_fig{number}" for number in (1, 3, 4, 5, 7, 8))
SCHEDULE: dict[str, Any] = {
    "epochs": 3,
    "batch_size": 20,
    "optimiser": "sgd",
    "momentum": 0.9,
    "weight_decay": 0.0,
    "learning_rate_drop": 0.1,
    "drop_every_epochs": 2,
}
TINY: dict[str, Any] = {
    "learning_rates": {"fc_2": {"norm_relu": 0.02, "batch_norm": 0.05}},
    "shape": {"fc_width": 8, "resnet_channels": 2, "fc_initialisation": "fan_in", "skip_scale": 0.7},
    "schedule": SCHEDULE,
    "drop_epochs": {},
    "images": {"train": 60, "test": 30, "probe": 10, "side": 8},
    "learning_rate_search": {"grid": {"fc": [0.001, 0.05], "resnet": [0.01]}, "epochs": 1, "held_out": 20},
    "runs": 2,
    "augmentation": False,
    "probe_absolute": False,
    "train_level": 15.0,
}


@pytest.fixture(scope="module")
def catalogue() -> Any:
    return load_catalogue(PATHS)


@pytest.fixture(scope="module")
def photographs() -> Any:
    return prepare("photographs", PATHS, None, 0, False)


@pytest.fixture(scope="module")
def context(photographs: Any) -> Any:
    return Context(seed=0, datasets={"photographs": photographs})


def settings_of(networks: Any, normalisations: Any, **changes: Any) -> Any:
    raw = {**TINY, "networks": networks, "normalisations": normalisations, **changes}
    return read_settings(Trainings, raw, "catalogue.yaml", "settings")


def table_of(context: Any, networks: Any, normalisations: Any, **changes: Any) -> Any:
    return accuracies(context, settings_of(networks, normalisations, **changes))


@pytest.fixture(scope="module")
def table(context: Any) -> Any:
    return table_of(context, ["fc_2"], ["norm_relu", "batch_norm"])


def test_every_run_has_its_curves_and_the_dot_product_before_training(table: Any) -> None:
    for quantity, epochs in {
        "train accuracy": [1, 2, 3],
        "test accuracy": [1, 2, 3],
        "train loss": [1, 2, 3],
        "mean dot product": [0, 1, 2, 3],
    }.items():
        rows = table[table["quantity"] == quantity]
        for _, own in rows.groupby(["normalisation", "seed"]):
            assert own["epoch"].tolist() == epochs
        assert rows.groupby(["normalisation", "seed"]).ngroups == 4
    dots = table[table["quantity"] == "mean dot product"]["value"]
    assert dots.between(-1, 1).all()


def test_the_learning_rate_is_the_best_of_the_grid_on_held_out_images_and_recorded(table: Any) -> None:
    for normalisation in ("norm_relu", "batch_norm"):
        own = table[table["normalisation"] == normalisation]
        tried = own[own["quantity"] == "validation accuracy"]
        assert sorted(tried["step_size"]) == [0.001, 0.05]
        (chosen,) = tried[tried["chosen"].eq(True)]["step_size"]
        assert chosen == tried.loc[tried["value"].astype(float).idxmax(), "step_size"]
        assert (own[own["seed"].notna()]["step_size"] == chosen).all()


def test_a_learning_rate_with_which_runs_diverge_gives_way_to_the_next_best(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = {"grid": {"fc": [0.001, 0.05, 1e6]}, "epochs": 1, "held_out": 20}
    ranking = {1e6: 90.0, 0.05: 50.0, 0.001: 10.0}
    monkeypatch.setattr(trainings.Training, "validation_accuracies", lambda *_: ranking)
    table = table_of(context, ["fc_2"], ["norm_relu"], learning_rate_search=search)
    diverged = table[table["quantity"] == "diverged runs"]
    assert dict(zip(diverged["step_size"], diverged["value"], strict=True)) == {1e6: 2, 0.05: 0}
    assert set(table[table["chosen"].eq(True)]["step_size"]) == {0.05}
    assert set(table[table["seed"].notna()]["step_size"]) == {0.05}
    monkeypatch.setattr(trainings, "DIVERGED_LOSS", 0.0)
    with_every_rate = table_of(context, ["fc_2"], ["norm_relu"], learning_rate_search=search)
    assert set(with_every_rate[with_every_rate["seed"].notna()]["step_size"]) == {1e6}


def test_a_loss_that_is_no_number_or_far_too_large_has_diverged() -> None:
    losses = {0: [2.3, 1.9], 1: [2.3, np.nan], 2: [2.3, 1e9], 3: [1e9, 2.2], 4: [np.nan]}
    rows = [
        {"quantity": "train loss", "seed": seed, "epoch": epoch, "value": value}
        for seed, values in losses.items()
        for epoch, value in enumerate(values, start=1)
    ]
    assert trainings.diverged_runs(pd.DataFrame(rows), classes=10) == 3


def test_large_runs_train_one_by_one() -> None:
    for network, groups in {"fc_2": [[0, 1]], "resnet_8": [[0], [1]]}.items():
        own = settings_of([network], ["norm_relu"]).training(network, "norm_relu")
        assert trainings.Training(own, "photographs", 2, 0).groups([0, 1]) == groups


def test_printed_learning_rates_are_taken_as_they_are(context: Any) -> None:
    table = table_of(context, ["fc_2"], ["norm_relu"], learning_rate_search=None)
    assert set(table["step_size"]) == {0.02} and "validation accuracy" not in set(table["quantity"])


def test_the_same_seed_gives_the_same_table(context: Any, table: Any) -> None:
    pd.testing.assert_frame_equal(table_of(context, ["fc_2"], ["norm_relu", "batch_norm"]), table)


def test_a_training_another_table_holds_is_not_trained_again(
    context: Any, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(trainings, "train", refuse)
    with_table = Context(seed=0, datasets=context.datasets, tables={"other": table})
    again = table_of(with_table, ["fc_2"], ["batch_norm"], train_level=99.0)
    own = table[table["normalisation"] == "batch_norm"]
    curves = ~own["quantity"].isin(RUN_QUANTITIES)
    reused = again[~again["quantity"].isin(RUN_QUANTITIES)]
    pd.testing.assert_frame_equal(reused.reset_index(drop=True), own[curves].reset_index(drop=True))
    assert (again[again["quantity"] == "epochs to level"]["value"] == SCHEDULE["epochs"] + 1).all()
    fewer = table_of(with_table, ["fc_2"], ["batch_norm"], runs=1)
    assert fewer["seed"].dropna().unique().tolist() == [0]
    for change in ({"schedule": {**SCHEDULE, "batch_size": 30}}, {"runs": 3}, {"augmentation": True}):
        with pytest.raises(AssertionError, match="trained again"):
            table_of(with_table, ["fc_2"], ["batch_norm"], **change)


def test_augmentation_changes_the_training_and_nothing_else(context: Any, table: Any) -> None:
    changed = table_of(context, ["fc_2"], ["norm_relu"], augmentation=True)
    again = table_of(context, ["fc_2"], ["norm_relu"], augmentation=True)
    pd.testing.assert_frame_equal(changed, again)

    def curve(of: Any, quantity: Any, epoch: Any) -> Any:
        rows = of[(of["normalisation"] == "norm_relu") & (of["quantity"] == quantity) & (of["epoch"] == epoch)]
        return rows["value"].to_numpy(dtype=float)

    np.testing.assert_array_equal(curve(changed, "mean dot product", 0), curve(table, "mean dot product", 0))
    assert (curve(changed, "train loss", 1) != curve(table, "train loss", 1)).all()


@pytest.mark.parametrize("normalisation", ["fixup", "norm_relu", "layer_norm"])
def test_resnets_train(context: Any, normalisation: str) -> None:
    table = table_of(context, ["resnet_8"], [normalisation], augmentation=True, runs=1)
    assert np.isfinite(table[table["epoch"].notna()]["value"].astype(float)).all()


def test_a_killed_training_goes_on_from_its_file(context: Any, table: Any, tmp_path: Path) -> None:
    working = Context(seed=0, datasets=context.datasets, work=WorkFolder(tmp_path))
    first = table_of(working, ["fc_2"], ["norm_relu"])
    assert list(tmp_path.glob("*.npz"))
    pd.testing.assert_frame_equal(table_of(working, ["fc_2"], ["norm_relu"]), first)
    own = table[table["normalisation"] == "norm_relu"].reset_index(drop=True)
    pd.testing.assert_frame_equal(first, own, check_dtype=False)


def test_numbers_of_a_run() -> None:
    curves = pd.DataFrame(
        {
            "train accuracy": [np.nan, 20.0, 40.0, 60.0],
            "test accuracy": [np.nan, 15.0, 45.0, 40.0],
            "mean dot product": [0.9, 0.8, 0.3, 0.5],
        },
        index=[0, 1, 2, 3],
    )
    values = run_summary(curves, train_level=50.0, chance=10.0)
    assert tuple(values) == RUN_QUANTITIES
    assert values["last test accuracy"] == 40.0 and values["best test accuracy"] == 45.0
    assert values["last train accuracy"] == 60.0 and values["epochs to level"] == pytest.approx(2.5)
    assert values["rank correlation"] == pytest.approx(-1.0)
    assert np.isnan(run_summary(curves.assign(**{"test accuracy": 10.0}), 50.0, 10.0)["rank correlation"])


@pytest.mark.parametrize(("level", "expected"), [(15.0, 0.5), (20.0, 1.0), (30.0, 1.5), (50.0, 3.0), (10.0, 0.0)])
def test_epochs_until_a_level(level: float, expected: float) -> None:
    assert epochs_to_reach(np.array([20.0, 40.0]), level, chance=10.0) == pytest.approx(expected)


def architecture(network: Any, normalisation: str = "norm_relu", **shape: Any) -> Any:
    settings = settings_of([network], [normalisation], shape=shape)
    return settings.training(network, normalisation, (3, 32, 32)).architecture


def test_memory_of_a_run_counts_parameters_and_activations() -> None:
    wide = architecture("fc_32", fc_width=3000)
    parameters = 3072 * 3000 + 31 * 3000**2 + 32 * 3000 + 3000 * 10 + 10
    assert run_bytes(wide, 0) == 6 * 4 * parameters
    narrow = architecture("resnet_32", resnet_channels=16)
    assert run_bytes(narrow, 128) > 10 * run_bytes(narrow, 0)


def test_a_shortened_schedule_drops_at_the_same_shares() -> None:
    schedule = Schedule(**{**SCHEDULE, "epochs": 30, "drop_every_epochs": 10})
    assert trainings.recipe(schedule).schedule == StepDecay(10, 0.1)
    assert trainings.recipe(schedule.shortened(6)).schedule == StepDecay(2, 0.1)
    assert trainings.recipe(schedule, [100, 150]).schedule == StepDrops((100, 150), 0.1)


def test_every_optimiser_of_the_training_loop_can_be_set() -> None:
    for name in OPTIMISERS:
        assert settings_of(["fc_2"], ["selu"], schedule={**SCHEDULE, "optimiser": name}).schedule.optimiser == name


def test_drops_fall_after_their_epochs() -> None:
    drops = StepDrops((2, 3), 0.5)
    assert [drops(epoch) for epoch in (1, 2, 3, 4, 5)] == [1.0, 1.0, 0.5, 0.25, 0.25]


def test_skip_connections_are_scaled_only_without_normalisation() -> None:
    scales = {
        name: architecture("resnet_8", name, resnet_channels=4, skip_scale=0.7).skip_scale
        for name in ("batch_norm", "layer_norm", "fixup", "norm_relu", "selu")
    }
    assert scales == {"batch_norm": 1.0, "layer_norm": 1.0, "fixup": 1.0, "norm_relu": 0.7, "selu": 0.7}


def test_the_key_of_a_training_is_the_one_in_published_tables(catalogue: Any) -> None:
    """Figure 3's first training at scale quick: a rename must not change it, or tables no longer share trainings."""
    settings = catalogue.artifact("conditioning_fig3").settings_at("quick")
    own = read_settings(Trainings, settings, "catalogue.yaml", "settings").training("fc_32", "batch_norm", (3, 16, 16))
    assert training_key(own, "photographs", 0) == "c62899d244cac7b4"
    assert training_key(own, "photographs", 1) != "c62899d244cac7b4"


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"networks": ["vgg_16"]}, "networks", "'vgg_16' is not known here: write fc_DEPTH or resnet_DEPTH"),
        ({"networks": ["resnet_9"]}, "networks", "6 k + 2 layers"),
        ({"normalisations": ["fixup"]}, "networks", "fc_2 with fixup: Fixup is"),
        ({"normalisations": ["group_norm"]}, "normalisations[0]", "allowed: batch_norm, fixup, layer_norm"),
        ({"learning_rates": {"fc2": {"selu": 0.1}}}, "learning_rates", "'fc2' is not known here"),
        ({"learning_rates": {"fc_2": {"group_norm": 0.1}}}, "learning_rates[...]", "group_norm"),
        ({"learning_rates": {"fc_2": {"selu": -0.1}}}, "learning_rates[...][...]", "> 0"),
        ({"shape": {"widht": 3}}, "shape", "unknown setting widht (allowed: fc_initialisation, fc_width"),
        ({"schedule": {"batch_size": 3}}, "schedule", "missing setting epochs"),
        ({"schedule": {**SCHEDULE, "optimiser": "lion"}}, "schedule.optimiser", "allowed: adam, rmsprop, sgd"),
        ({"drop_epochs": {"selu": [0]}}, "drop_epochs[...][0]", ">= 1"),
        ({"images": {**TINY["images"], "pixels": "raw"}}, "images.pixels", "allowed: standardised, unit_interval"),
        ({"learning_rate_search": None}, "learning_rates", "there is none for fc_2 with selu"),
        (
            {"learning_rate_search": {"guess": 1}},
            "learning_rate_search",
            "unknown setting guess (allowed: epochs,",
        ),
        ({"learning_rate_search": {"grid": {"fc": [0.1]}}}, "learning_rate_search", "missing setting epochs"),
        (
            {"learning_rate_search": {**TINY["learning_rate_search"], "grid": {"resnet": [0.1]}}},
            "learning_rate_search.grid",
            "no learning rates for fc",
        ),
        (
            {"learning_rate_search": {**TINY["learning_rate_search"], "held_out": 60}},
            "learning_rate_search.held_out",
            "cannot hold out 60 of 60",
        ),
        ({"train_level": 120.0}, "train_level", "<= 100"),
    ],
)
def test_a_wrong_setting_is_said_with_its_file_and_key(changes: Any, key: str, reason: str) -> None:
    changes = {"networks": ["fc_2"], "normalisations": ["selu"], **changes}
    with pytest.raises(InvalidConfig) as error:
        settings_of(changes.pop("networks"), changes.pop("normalisations"), **changes)
    assert (error.value.file, error.value.key) == ("catalogue.yaml", f"settings.{key}")
    assert reason in error.value.reason


def made_up(artifact: Any, scale: Any, ahead: Any) -> Any:
    """A table in which `ahead` says how many points (and, for epochs, how much longer) each normalisation gets."""
    settings = artifact.settings_at(scale)
    rows = []
    for network in settings["networks"]:
        for normalisation in settings["normalisations"]:
            points = ahead.get(normalisation, 0.0)
            for seed in range(3):
                values = {
                    "last test accuracy": 60.0 + points + 0.1 * seed,
                    "epochs to level": 10.0 - points + 0.1 * seed,
                    "rank correlation": -0.9 + 0.01 * seed,
                    "mean dot product": 0.5 - 0.1 * points,
                }
                about = {"network": network, "normalisation": normalisation, "seed": seed, "epoch": 0}
                rows += [{**about, "quantity": name, "value": value} for name, value in values.items()]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("name", FIGURES)
def test_claims_can_hold_and_can_fail(catalogue: Any, name: Any) -> None:
    artifact = catalogue.artifact(name)
    good = made_up(artifact, "paper", {"norm_relu": 0.5})
    bad = made_up(artifact, "paper", {"norm_relu": -5.0})
    for claim in artifact.claims:
        assert decide(claim, artifact, "paper", good).state == HELD, claim.name
        if "correlation" not in claim.name:
            assert decide(claim, artifact, "paper", bad).state == FAILED, claim.name
        else:
            reverse = good.assign(value=-good["value"])
            assert decide(claim, artifact, "paper", reverse).state == FAILED, claim.name


@pytest.mark.parametrize("name", FIGURES)
def test_claims_can_be_measured_at_their_own_scale(catalogue: Any, name: Any) -> None:
    artifact = catalogue.artifact(name)
    for claim in artifact.claims:
        for scale in SCALES[SCALES.index(claim.scale) :]:
            decide(claim, artifact, scale, made_up(artifact, scale, {}))


@pytest.mark.parametrize("name", FIGURES)
def test_pictures_have_a_line_for_every_normalisation(catalogue: Any, table: Any, name: Any) -> None:
    artifact = catalogue.artifact(name)
    fig = figure_function(artifact)(table, artifact)
    assert isinstance(fig, Figure)
    for axis in fig.axes:
        assert len(axis.lines) == (1 if name == "conditioning_fig1" else 2)
    assert study_function(artifact) is accuracies


def test_figures_share_their_trainings_below_the_papers_scale(catalogue: Any) -> None:
    """Figure 1 reuses trainings of Figures 3 and 4; at the paper's scale learning rates differ, and it uses none."""
    first = catalogue.artifact("conditioning_fig1")
    for scale in ("quick", "cpu"):
        for used, network in zip(first.uses_at(scale), first.settings_at(scale)["networks"], strict=True):
            mine, other = first.settings_at(scale), catalogue.artifact(used).settings_at(scale)
            assert network in other["networks"]
            for key in ("shape", "schedule", "images", "learning_rate_search", "augmentation", "probe_absolute"):
                assert mine[key] == other[key]
            assert mine["runs"] <= other["runs"]
    assert first.uses_at("paper") == ()
