"""The conditioning study: what its artifacts measure, and that every claim of the working ones holds."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from tangentbench.claims import HELD, decide, evaluate
from tangentbench.config import SCALES
from tangentbench.errors import InvalidConfig
from tangentbench.paths import Paths, find_root
from tangentbench.studies.registry import Context, figure_function, on_settings, study_function
from tangentbench.studies.settings import read_settings, settings_record
from tangentbench.suite.catalogue import load_catalogue

ARTIFACTS = ("conditioning_table_mu", "conditioning_fig2", "conditioning_fig6")


@pytest.fixture(scope="module")
def catalogue() -> Any:
    return load_catalogue(Paths(find_root()))


@pytest.fixture(scope="module")
def tables(catalogue: Any) -> Any:
    """Each artifact's table at each scale; all of them are cheap at every scale."""
    return {
        (name, scale): on_settings(study_function(artifact), artifact, artifact.settings_at(scale), Context(seed=0))
        for name in ARTIFACTS
        for artifact in [catalogue.artifact(name)]
        for scale in SCALES
    }


@pytest.mark.parametrize(
    ("name", "changes", "key", "reason"),
    [
        ("conditioning_table_mu", {"activations": [{"c": -1.5}]}, "activations", "no name"),
        ("conditioning_fig2", {"inputs": [3.0, -4.0]}, "inputs", "smaller"),
        ("conditioning_fig2", {"inputs": [1.0]}, "inputs", "length 2"),
        ("conditioning_fig2", {"points": 1}, "points", ">= 2"),
        ("conditioning_fig6", {"squared_norms": [1.5, 2.0]}, "squared_norms", "1 must be between"),
        ("conditioning_theorem5", {"activations_applied": "both"}, "activations_applied", "definition, proof"),
        ("conditioning_theorem5", {"deltas": [0.0]}, "deltas", "> 0"),
        ("conditioning_theorem3", {"unequal_norms": {"c": -1.0}}, "unequal_norms", "missing setting squared_norms"),
        ("conditioning_training", {"loss_ratio": 2.0}, "loss_ratio", "<= 1"),
        ("conditioning_training", {"top_layer": {"width": 8}}, "top_layer", "missing setting max_steps"),
        ("conditioning_training", {"uncentred_activations": [{"slope": 1}]}, "uncentred_activations", "no name"),
    ],
)
def test_a_wrong_setting_is_said_with_its_file_and_key(
    catalogue: Any, name: str, changes: Any, key: str, reason: str
) -> None:
    settings = {**catalogue.artifact(name).settings_at("quick"), **changes}
    with pytest.raises(InvalidConfig) as error:
        read_settings(settings_record("conditioning", name), settings, "catalogue.yaml", f"artifacts.{name}.settings")
    assert str(error.value).startswith(f"catalogue.yaml at artifacts.{name}.settings.{key}")
    assert reason in error.value.reason


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ARTIFACTS)
def test_every_claim_holds(catalogue: Any, tables: Any, name: Any, scale: Any) -> None:
    artifact = catalogue.artifact(name)
    assert artifact.claims
    states = {claim.name: decide(claim, artifact, scale, tables[name, scale]).state for claim in artifact.claims}
    assert set(states.values()) == {HELD}, states


@pytest.mark.parametrize("name", ARTIFACTS)
def test_every_printed_number_has_ours_beside_it(catalogue: Any, tables: Any, name: Any) -> None:
    for printed in catalogue.artifact(name).paper_values:
        ours = evaluate(printed.measure, tables[name, "quick"])
        assert ours == pytest.approx(printed.value, rel=0.01, abs=1e-12), printed.label


@pytest.mark.parametrize("name", ARTIFACTS)
def test_scales_agree_in_every_printed_number(catalogue: Any, tables: Any, name: Any) -> None:
    for printed in catalogue.artifact(name).paper_values:
        values = [evaluate(printed.measure, tables[name, scale])[0] for scale in SCALES]
        np.testing.assert_allclose(values, values[0], atol=1e-13)


@pytest.mark.parametrize("name", ARTIFACTS)
def test_picture_has_curves_and_names_on_every_panel(catalogue: Any, tables: Any, name: Any) -> None:
    artifact = catalogue.artifact(name)
    fig = figure_function(artifact)(tables[name, "quick"], artifact)
    assert isinstance(fig, Figure)
    for axis in fig.axes:
        assert axis.lines and axis.get_xlabel() and axis.get_title()


def test_a_wrong_activation_fails_its_claim(catalogue: Any) -> None:
    """Another kink is another mu: the claims do not hold of themselves."""
    artifact = catalogue.artifact("conditioning_table_mu")
    settings = {"activations": [{"name": "norm_relu", "c": -1.0}], "own_activations": []}
    table = on_settings(study_function(artifact), artifact, settings, Context(seed=0))
    (claim,) = [claim for claim in artifact.claims if claim.name.endswith("norm_relu")]
    assert decide(claim, artifact, "quick", table).state != HELD


def test_table_tells_ours_from_the_papers(tables: Any) -> None:
    origins = tables["conditioning_table_mu", "quick"].set_index("activation")["origin"]
    assert origins["relu"] == "paper" and origins["selu"] == "ours" and origins["leaky_relu"] == "ours"


def test_curves_pass_through_both_kinks(tables: Any) -> None:
    table = tables["conditioning_fig2", "quick"]
    for x in (-1.5975, 0.0):
        assert (table.loc[table["quantity"] == "curve", "x"] == x).sum() == 2


def test_norm_grid_holds_its_ends_and_one_once(tables: Any) -> None:
    table = tables["conditioning_fig6", "quick"]
    rows = table[(table["quantity"] == "bias") & (table["method"] == "closed form")]
    for gamma in (0.5, 1.0, 2.0):
        assert (rows["gamma"] == gamma).sum() == 1
    assert np.all(np.diff(rows["gamma"]) > 1e-6)
