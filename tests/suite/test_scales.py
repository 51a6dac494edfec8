"""config.SCALES is the one list of scales; whatever else names them must agree with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_project import ROOT

from tangentbench.config import SCALES
from tangentbench.paths import Paths
from tangentbench.report.gallery import SCALE_SENTENCES
from tangentbench.suite import workflow
from tangentbench.suite.workflow import Wiring

PATHS = Paths(ROOT)


def lists_of_scales(schema: Any) -> Iterator[list[str]]:
    """Every list or object of a JSON schema that names a scale."""
    if isinstance(schema, dict):
        if len(set(schema) & set(SCALES)) > 1:  # `paper` alone is the record of a paper
            yield list(schema)
        for value in schema.values():
            yield from lists_of_scales(value)
    elif isinstance(schema, list):
        if sum(one in SCALES for one in schema if isinstance(one, str)) > 1:
            yield schema
        for value in schema:
            yield from lists_of_scales(value)


@pytest.mark.parametrize("name", ["catalogue", "config", "grams"])
def test_a_schema_names_every_scale_in_order(name: str) -> None:
    found = list(lists_of_scales(json.loads((PATHS.schemas / f"{name}.schema.json").read_text("utf-8"))))
    assert found
    assert all(tuple(names) == SCALES for names in found)


def test_the_gallery_has_a_sentence_for_every_scale() -> None:
    assert tuple(SCALE_SENTENCES) == SCALES


def test_rules_name_no_scale() -> None:
    for file in (ROOT / "Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")):
        assert not any(scale in file.read_text("utf-8").replace('"', " ").split() for scale in SCALES), file.name


@pytest.mark.parametrize("scale", SCALES)
def test_a_build_at_one_scale_plans_that_scale_only(
    scale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = []
    original = workflow.Grams.at  # type: ignore[attr-defined]

    def remembered(paths: Paths, artifacts: Any, at: str) -> Any:
        planned.append(at)
        return original(paths, artifacts, at)

    monkeypatch.setattr(workflow.Grams, "at", remembered)  # type: ignore[attr-defined]
    monkeypatch.chdir(ROOT)
    wiring = Wiring.load({"scale": scale})
    for study in wiring.catalogue.studies:
        wiring.study_files(study, wiring.scale)
    assert planned == [scale]
