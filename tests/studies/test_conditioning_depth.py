"""Theorems 3 and 5 and gradient descent against depth: what the studies measure, on smaller samples."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from tangentbench.claims import HELD, decide
from tangentbench.datasets.prepare.pipeline import prepare
from tangentbench.errors import UnknownName
from tangentbench.paths import Paths, find_root
from tangentbench.studies.registry import Context, figure_function, on_settings, study_function
from tangentbench.suite.catalogue import load_catalogue

PATHS = Paths(find_root())
SMALLER = {
    "conditioning_theorem3": {"depth_max": 300, "records": 25, "images": 25},
    "conditioning_theorem5": {"depth_max": 300, "records": 25, "images": 25},
    "conditioning_training": {
        "depths": [1, 4, 16],
        "images": 16,
        "top_layer": {"width": 256, "max_steps": 10000},
        "all_layers": {"width": 128, "max_steps": 2000},
    },
}


@pytest.fixture(scope="module")
def catalogue() -> Any:
    return load_catalogue(PATHS)


@pytest.fixture(scope="module")
def datasets() -> Any:
    return {name: prepare(name, PATHS, None, 0, False) for name in ("sphere_pairs", "mnist5k", "photographs")}


def measured(artifact: Any, context: Any, settings: Any) -> Any:
    return on_settings(study_function(artifact), artifact, settings, context)


@pytest.fixture(scope="module")
def tables(catalogue: Any, datasets: Any) -> Any:
    """Each artifact's table at quick with smaller samples."""
    found = {}
    for name, smaller in SMALLER.items():
        artifact = catalogue.artifact(name)
        given = {data: datasets[data] for data in artifact.datasets_at("quick")}
        context = Context(seed=0, datasets=given)
        found[name] = measured(artifact, context, {**artifact.settings_at("quick"), **smaller})  # type: ignore[dict-item]
    return found


@pytest.mark.parametrize("name", ["conditioning_theorem3", "conditioning_theorem5"])
def test_every_claim_holds(catalogue: Any, tables: Any, name: str) -> None:
    artifact = catalogue.artifact(name)
    states = {claim.name: decide(claim, artifact, "quick", tables[name]).state for claim in artifact.claims}
    assert set(states.values()) == {HELD}, states


@pytest.mark.parametrize("name", SMALLER)
def test_picture_has_curves_and_names_on_every_panel(catalogue: Any, tables: Any, name: Any) -> None:
    artifact = catalogue.artifact(name)
    fig = figure_function(artifact)(tables[name], artifact)
    assert isinstance(fig, Figure)
    for axis in fig.axes:
        assert axis.lines and axis.get_xlabel()


def test_kernel_descent_stays_within_the_condition_numbers_steps(tables: Any) -> None:
    table = tables["conditioning_training"]
    rows = table[(table["method"] == "kernel") & (table["quantity"] == "over predicted")]
    assert rows["value"].between(0.0, 1.0).all() and len(rows) == 2 * 3 * 4


def test_wide_networks_take_about_the_steps_of_their_kernel(tables: Any) -> None:
    table = tables["conditioning_training"]
    rows = table[(table["quantity"] == "over kernel") & (table["depth"] == 1)]
    assert 0.5 < rows["value"].median() < 2.0


def test_a_network_that_runs_out_of_steps_is_left_empty(catalogue: Any, datasets: Any) -> None:
    artifact = catalogue.artifact("conditioning_training")
    settings = {**artifact.settings_at("quick"), **SMALLER["conditioning_training"], "depths": [1], "runs": 1}  # type: ignore[dict-item]
    few = {"width": 128, "max_steps": 2}
    settings |= {"activations": ["relu"], "uncentred_activations": [], "top_layer": few, "all_layers": few}
    table = measured(artifact, Context(seed=0, datasets={"mnist5k": datasets["mnist5k"]}), settings)
    steps = table[(table["method"] == "network") & (table["quantity"] == "steps")]["value"]
    assert len(steps) == 2 and steps.isna().all()


def test_definition_is_the_proof_one_layer_later(catalogue: Any, datasets: Any) -> None:
    artifact = catalogue.artifact("conditioning_theorem5")
    settings = {**artifact.settings_at("quick"), "activations": ["tanh"], "uncentred_activations": []}
    settings |= {"depth_max": 6, "records": 20, "deltas": [0.1]}
    pairs = Context(seed=0, datasets={"sphere_pairs": datasets["sphere_pairs"]})
    by_reading = {}
    for reading in ("proof", "definition"):
        table = measured(artifact, pairs, {**settings, "activations_applied": reading})
        rows = table[table["quantity"] == "correlation"].set_index("depth")["value"]
        by_reading[reading] = rows
    np.testing.assert_allclose(by_reading["definition"].loc[2:6], by_reading["proof"].loc[1:5])
    assert by_reading["definition"].loc[1] == pytest.approx(0.9, abs=1e-6)


def test_an_unknown_separation_is_named(catalogue: Any, datasets: Any) -> None:
    artifact = catalogue.artifact("conditioning_theorem5")
    settings = {**artifact.settings_at("quick"), "depth_max": 3}
    pairs = Context(seed=0, datasets={"sphere_pairs": datasets["sphere_pairs"]})
    with pytest.raises(UnknownName, match="separation"):
        measured(artifact, pairs, {**settings, "deltas": [0.123]})


def test_a_bound_for_another_activation_fails(catalogue: Any, tables: Any) -> None:
    """NormReLU held against normalised ReLU's bound, which has a larger mu, breaks it: the claim can fail."""
    table = tables["conditioning_theorem3"]
    pairs = table[(table["data"] == "sphere_pairs") & (table["delta"] == 0.1)]
    wide = {
        name: pairs[pairs["activation"] == name].pivot(index="depth", columns="quantity", values="value")
        for name in ("normalised_norm_relu", "normalised_relu")
    }
    ratio = wide["normalised_norm_relu"]["correlation"] / wide["normalised_relu"]["bound"]
    row = pd.DataFrame({"quantity": ["ratio"], "family": ["normalised"], "value": [ratio.max()]})
    artifact = catalogue.artifact("conditioning_theorem3")
    (claim,) = [claim for claim in artifact.claims if claim.name.endswith("theorem3_bound")]
    assert decide(claim, artifact, "quick", row).state != HELD
