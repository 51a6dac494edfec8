"""A part is given the data sets it needs and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_project import ROOT

from tangentbench.config import SCALES
from tangentbench.errors import TangentbenchError
from tangentbench.paths import Paths
from tangentbench.studies import settings
from tangentbench.suite.catalogue import load_catalogue
from tangentbench.suite.part_datasets import part_datasets
from tangentbench.suite.workflow import Wiring

CATALOGUE = load_catalogue(Paths(ROOT))
DIGITS = {"mnist5k", "mnist"}


@pytest.mark.parametrize("scale", SCALES)
def test_a_row_of_digits_loads_no_photographs(scale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    wiring = Wiring.load({"scale": scale})
    table2 = CATALOGUE.artifact("npk_table2")
    for part in table2.parts_at(scale):
        (name,) = part_datasets(table2, scale, part)
        assert (name in DIGITS) == ("fc_" in part)
        assert wiring.datasets("npk_table2", scale, part) == [f"data/{name}.npz"]


def test_a_part_of_all_rows_needs_both() -> None:
    whole = replace(CATALOGUE.artifact("npk_table2"), split=())
    assert part_datasets(whole, "quick", "all") == whole.datasets_at("quick")


def test_without_a_choice_a_part_gets_all_of_them() -> None:
    artifact = CATALOGUE.artifact("npk_fig3a")
    part = next(iter(artifact.parts_at("quick")))
    assert part_datasets(artifact, "quick", part) == artifact.datasets_at("quick")


def test_a_choice_the_catalogue_does_not_name_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = CATALOGUE.artifact("npk_fig3a")
    part = next(iter(artifact.parts_at("quick")))
    monkeypatch.setitem(settings._DATASET_CHOICES, "npk_fig3a", lambda names, settings: ["stl10"])
    with pytest.raises(TangentbenchError, match=r"npk_fig3a chooses the data set stl10.*add it to `datasets`"):
        part_datasets(artifact, "quick", part)
