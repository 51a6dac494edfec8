"""The study of L2-regularised features, at sizes of seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_project import ROOT

from tangentbench.datasets import Dataset
from tangentbench.errors import InvalidConfig, TangentbenchError
from tangentbench.paths import Paths
from tangentbench.studies.registry import Context, figure_function
from tangentbench.studies.regularised.measure.forces import attraction_and_repulsion
from tangentbench.studies.regularised.measure.plateau import loss_against_width
from tangentbench.studies.regularised.settings import Forces, Plateau
from tangentbench.studies.settings import read_settings
from tangentbench.suite.catalogue import load_catalogue


def digits(each: int = 8) -> Dataset:
    """Three classes of noisy 4x4 images, called 7, 8 and 9, and one more."""
    generator = np.random.default_rng(0)
    means = generator.random((4, 4, 4, 1))
    labels = np.repeat(np.arange(4), each)
    images = (means[labels] + 0.3 * generator.random((len(labels), 4, 4, 1))).astype(np.float32)
    return Dataset("digits", images, labels, images, labels, ("6", "7", "8", "9"))


def teacher(count: int = 40) -> Dataset:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(count, 5)).astype(np.float32)
    y = np.maximum(x[:, :2], 0.0)
    return Dataset("teacher", x, y, x, y)


FORCES: dict[str, Any] = {
    "digits": [7, 8, 9],
    "images": 12,
    "hidden_layers": 2,
    "width": 10,
    "loss": "cross_entropy",
    "optimiser": "descent",
    "steps": 2500,
    "penalty": 0.01,
    "learning_rate": 0.2,
    "bias": 1.0,
    "tikhonov": 1e-3,
    "rays": {"count": 3, "degrees": 10.0, "share": 0.9},
    "runs": 2,
}
PLATEAU: dict[str, Any] = {
    "panels": ["mnist", "teacher"],
    "mnist": {"images": 16, "penalties": [1e-2, 1e-3], "trials": 1, "adam_steps": 300, "descent_steps": 50},
    "teacher": {"images": 40, "penalties": [1e-4], "trials": 2, "adam_steps": 300, "descent_steps": 50},
    "hidden_layers": 2,
    "widths": [1, 3, 8],
    "adam_learning_rate": 0.01,
    "descent_learning_rate": 0.02,
    "bias": 1.0,
    "plateau_tolerance": 0.05,
    "other_tolerances": [0.5],
}


def force_settings(**changes: Any) -> Forces:
    return read_settings(Forces, {**FORCES, **changes}, "catalogue.yaml", "artifacts.x.settings")


def plateau_settings(**changes: Any) -> Plateau:
    return read_settings(Plateau, {**PLATEAU, **changes}, "catalogue.yaml", "artifacts.x.settings")


@pytest.fixture(scope="module")
def forces() -> pd.DataFrame:
    return attraction_and_repulsion(Context(seed=0, datasets={"digits": digits()}), force_settings())


@pytest.fixture(scope="module")
def plateau() -> pd.DataFrame:
    context = Context(seed=0, datasets={"digits": digits(), "teacher": teacher()})
    return loss_against_width(context, plateau_settings())


def test_forces_table_has_every_point_of_every_run(forces: pd.DataFrame) -> None:
    counts = forces.dropna(subset=["view"]).groupby(["seed", "layer", "view"]).size().unstack()
    assert (counts["images"] == 12).all() and (counts["neurons"] == 10).all() and (counts["rays"] == 3).all()
    assert len(counts) == 4
    images = forces[forces["view"] == "images"]
    assert set(images["label"]) == {7, 8, 9}


def test_trained_runs_are_where_the_theory_is(forces: pd.DataFrame) -> None:
    values = forces.dropna(subset=["quantity"]).pivot(index=["seed", "layer"], columns="quantity", values="value")
    whole, layers = values.xs(0, level="layer"), values.drop(index=0, level="layer")
    assert (whole["loss apart"] < 1e-3).all() and (whole["loss in representations"] <= whole["loss"] + 1e-12).all()
    assert (layers["imbalance along the rays"] < 0.05).all()
    assert (layers["imbalance with the reaction"] <= layers["imbalance"] + 1e-9).all()
    assert (layers["silhouette, trained"] > layers["silhouette, untrained"]).all()
    assert (layers["share near the rays, trained"] > layers["share near the rays, untrained"]).all()
    assert layers["rays needed"].between(1, 21).all()


def test_an_attracted_image_is_drawn_to_the_origin(forces: pd.DataFrame) -> None:
    neurons = forces[forces["view"] == "neurons"]
    inward = -(neurons["x"] * neurons["attraction_x"] + neurons["y"] * neurons["attraction_y"])
    outward = neurons["x"] * neurons["repulsion_x"] + neurons["y"] * neurons["repulsion_y"]
    assert inward.sum() > 0 and outward.sum() > 0


def test_plateau_table_has_every_network_and_the_best_trial(plateau: pd.DataFrame) -> None:
    trained = plateau[plateau["tolerance"].isna()]
    assert trained.groupby("panel").size().to_dict() == {"mnist": 6, "teacher": 6}
    teachers = trained[trained["panel"] == "teacher"]
    best = teachers.groupby("width")["train_loss"].min()
    chosen = teachers[teachers["chosen"].astype(bool)].set_index("width")["train_loss"]
    assert chosen.equals(best) and best.is_monotonic_decreasing
    assert (trained["test_loss"] < trained["train_loss"]).all()


def test_plateau_start_moves_down_with_the_tolerance(plateau: pd.DataFrame) -> None:
    starts = plateau.dropna(subset=["tolerance"]).pivot(index=["panel", "penalty"], columns="tolerance", values="start")
    assert len(starts) == 3 and (starts[0.5] <= starts[0.05]).all()


def test_networks_do_not_depend_on_those_beside_them(plateau: pd.DataFrame) -> None:
    context = Context(seed=0, datasets={"teacher": teacher()})
    alone = loss_against_width(context, plateau_settings(panels=["teacher"], widths=[3]))
    mine = alone[alone["trial"] == 1]["train_loss"].iloc[0]
    among = plateau[(plateau["panel"] == "teacher") & (plateau["width"] == 3) & (plateau["trial"] == 1)]
    assert mine == pytest.approx(among["train_loss"].iloc[0], rel=1e-3)


def test_data_that_does_not_fit_is_named() -> None:
    context = Context(seed=0, datasets={"teacher": teacher()})
    with pytest.raises(TangentbenchError, match="needs a data set with classes"):
        loss_against_width(context, plateau_settings(panels=["mnist"]))
    with pytest.raises(TangentbenchError, match="teacher: 41 training examples are wanted but only 40"):
        loss_against_width(context, plateau_settings(panels=["teacher"], teacher={**PLATEAU["teacher"], "images": 41}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"panels": ["cifar"]}, r"panels\[0\]: 'cifar' is not known here \(allowed: mnist, teacher\)"),
        ({"teacher": {**PLATEAU["teacher"], "adam_steps": -1}}, r"teacher.adam_steps: expected `int` >= 0"),
        ({"mnist": {**PLATEAU["mnist"], "adam_steps": 0, "descent_steps": 0}}, r"mnist.adam_steps: neither Adam nor"),
        ({"mnist": {"images": 16}}, r"mnist: missing setting penalties"),
    ],
)
def test_wrong_settings_of_the_plateau_are_said_with_file_and_key(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidConfig, match=rf"catalogue.yaml at artifacts.x.settings.{says}"):
        plateau_settings(**changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"images": 13}, "images: 13 images cannot be equally many of each of 3 digits"),
        ({"optimiser": "adam"}, "optimiser: 'adam' is not known here"),
        ({"rays": {**FORCES["rays"], "share": 2.0}}, "rays.share: expected `float` <= 1"),
    ],
)
def test_wrong_settings_of_the_forces_are_said_with_file_and_key(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidConfig, match=f"catalogue.yaml at artifacts.x.settings.{says}"):
        force_settings(**changes)


@pytest.mark.parametrize("name", ["regularised_fig5_1", "regularised_fig5_2"])
def test_pictures_are_drawn(name: str, request: pytest.FixtureRequest) -> None:
    table = request.getfixturevalue("forces" if name.endswith("1") else "plateau")
    artifact = load_catalogue(Paths(ROOT)).artifact(name)
    fig = figure_function(artifact)(table, artifact)
    fig.canvas.draw()
    assert all(axis.has_data() for axis in fig.axes)
