"""The conditioning study: what its artifacts measure, and that every claim of the working ones holds."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from tangentbench.claims import HELD, decide, evaluate
from tangentbench.config import SCALES
from tangentbench.paths import Paths, find_root
from tangentbench.studies.registry import Context, check_settings, figure_function, study_function
from tangentbench.suite.catalogue import load_catalogue

ARTIFACTS = ("conditioning_table_mu", "conditioning_fig2", "conditioning_fig6")


@pytest.fixture(scope="module")
def catalogue():
    return load_catalogue(Paths(find_root()))


@pytest.fixture(scope="module")
def tables(catalogue):
    """Each artifact's table at each scale; all of them are cheap at every scale."""
    return {
        (name, scale): study_function(artifact)(Context(seed=0), **artifact.settings_at(scale))
        for name in ARTIFACTS
        for artifact in [catalogue.artifact(name)]
        for scale in SCALES
    }


@pytest.mark.parametrize("name", ARTIFACTS)
def test_settings_are_the_parameters(catalogue, name):
    artifact = catalogue.artifact(name)
    for scale in SCALES:
        check_settings(study_function(artifact), artifact.settings_at(scale), "conditioning.yaml", name)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ARTIFACTS)
def test_every_claim_holds(catalogue, tables, name, scale):
    artifact = catalogue.artifact(name)
    assert artifact.claims
    states = {claim.name: decide(claim, artifact, scale, tables[name, scale]).state for claim in artifact.claims}
    assert set(states.values()) == {HELD}, states


@pytest.mark.parametrize("name", ARTIFACTS)
def test_every_printed_number_has_ours_beside_it(catalogue, tables, name):
    for printed in catalogue.artifact(name).paper_values:
        ours = evaluate(printed.measure, tables[name, "quick"])
        assert ours == pytest.approx(printed.value, rel=0.01, abs=1e-12), printed.label


@pytest.mark.parametrize("name", ARTIFACTS)
def test_scales_agree_in_every_printed_number(catalogue, tables, name):
    for printed in catalogue.artifact(name).paper_values:
        values = [evaluate(printed.measure, tables[name, scale])[0] for scale in SCALES]
        np.testing.assert_allclose(values, values[0], atol=1e-13)


@pytest.mark.parametrize("name", ARTIFACTS)
def test_picture_has_curves_and_names_on_every_panel(catalogue, tables, name):
    artifact = catalogue.artifact(name)
    fig = figure_function(artifact)(tables[name, "quick"], artifact)
    assert isinstance(fig, Figure)
    for axis in fig.axes:
        assert axis.lines and axis.get_xlabel() and axis.get_title()


def test_a_wrong_activation_fails_its_claim(catalogue):
    """Another kink is another mu: the claims do not hold of themselves."""
    artifact = catalogue.artifact("conditioning_table_mu")
    settings = {"activations": [{"name": "norm_relu", "c": -1.0}], "own_activations": []}
    table = study_function(artifact)(Context(seed=0), **settings)
    (claim,) = [claim for claim in artifact.claims if claim.name.endswith("norm_relu")]
    assert decide(claim, artifact, "quick", table).state != HELD


def test_table_tells_ours_from_the_papers(tables):
    origins = tables["conditioning_table_mu", "quick"].set_index("activation")["origin"]
    assert origins["relu"] == "paper" and origins["selu"] == "ours" and origins["leaky_relu"] == "ours"


def test_curves_pass_through_both_kinks(tables):
    table = tables["conditioning_fig2", "quick"]
    for x in (-1.5975, 0.0):
        assert (table.loc[table["quantity"] == "curve", "x"] == x).sum() == 2


def test_norm_grid_holds_its_ends_and_one_once(tables):
    table = tables["conditioning_fig6", "quick"]
    rows = table[(table["quantity"] == "bias") & (table["method"] == "closed form")]
    for gamma in (0.5, 1.0, 2.0):
        assert (rows["gamma"] == gamma).sum() == 1
    assert np.all(np.diff(rows["gamma"]) > 1e-6)
