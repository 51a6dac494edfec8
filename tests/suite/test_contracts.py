"""Every artifact keeps the small contracts that let it be added in one place."""

from __future__ import annotations

import inspect

import pytest
from small_project import ROOT

from tangentbench.config import SCALES
from tangentbench.datasets.prepare.recipes import load_recipes
from tangentbench.errors import InvalidConfig
from tangentbench.paths import Paths
from tangentbench.studies.registry import figure_function, settings_for
from tangentbench.studies.work import work_model
from tangentbench.suite.catalogue import Artifact, load_catalogue
from tangentbench.suite.costs import estimate, load_unit_costs

PATHS = Paths(ROOT)
CATALOGUE = load_catalogue(PATHS)
every = pytest.mark.parametrize("artifact", list(CATALOGUE), ids=lambda artifact: artifact.name)


@every
@pytest.mark.parametrize("scale", SCALES)
def test_settings_are_the_study_functions_parameters(artifact: Artifact, scale: str) -> None:
    for settings in artifact.parts_at(scale).values():
        settings_for(artifact, settings)


@every
def test_a_wrong_setting_is_named(artifact: Artifact) -> None:
    settings = {**artifact.settings_at("quick"), "no_such_setting": 1}
    with pytest.raises(InvalidConfig, match="no_such_setting"):
        settings_for(artifact, settings)


@every
def test_figure_takes_table_and_artifact(artifact: Artifact) -> None:
    assert len(inspect.signature(figure_function(artifact)).parameters) == 2


@pytest.mark.parametrize(
    "artifact", [one for one in CATALOGUE if work_model(one.study, one.name)], ids=lambda artifact: artifact.name
)
@pytest.mark.parametrize("scale", SCALES)
def test_a_work_model_takes_the_settings(artifact: Artifact, scale: str) -> None:
    assert estimate(artifact, scale, load_unit_costs(PATHS), PATHS).core_hours


@every
def test_claims_and_printed_numbers_can_be_measured(artifact: Artifact) -> None:
    assert all(claim.measure for claim in artifact.claims)
    assert all(value.measure for value in artifact.paper_values)


@every
def test_datasets_exist(artifact: Artifact) -> None:
    recipes = load_recipes(PATHS)
    for scale in SCALES:
        assert set(artifact.datasets_at(scale)) <= set(recipes)


@every
def test_quick_needs_no_network(artifact: Artifact) -> None:
    embedded = {"mnist5k", "photographs", "sphere_pairs", "teacher"}
    recipes = load_recipes(PATHS)
    assert {recipes[name].source for name in artifact.datasets_at("quick")} <= embedded


def test_rules_stay_short() -> None:
    for file in sorted((ROOT / "workflow" / "rules").glob("*.smk")):
        for rule in file.read_text("utf-8").split("\nrule ")[1:]:
            assert len(rule.split("\n\n\n")[0].splitlines()) <= 25, f"{file.name}: {rule.splitlines()[0]}"
