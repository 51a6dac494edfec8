"""What the README and the repository's own files promise."""

from __future__ import annotations

import re

import yaml
from small_project import ROOT

from tangentbench import __version__
from tangentbench.config import SCALES
from tangentbench.paths import Paths
from tangentbench.suite.catalogue import load_catalogue
from tangentbench.suite.readme import with_table

README = (ROOT / "README.md").read_text("utf-8")
CATALOGUE = load_catalogue(Paths(ROOT))


def test_table_of_artifacts_is_the_catalogue() -> None:
    assert with_table(README, CATALOGUE) == README, "run `make docs`"


def test_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8")):
            if not link.startswith(("http:", "https:", "mailto:")):
                assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_commands_named_in_the_readme_exist() -> None:
    for target in re.findall(r"snakemake [^\n`]*?((?:npk|conditioning|cntk|bounds)_\w+)", README):
        CATALOGUE.artifact(target)


def test_version_is_told_once() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_dvc_has_one_stage_a_study() -> None:
    pipeline = yaml.safe_load((ROOT / "dvc.yaml").read_text("utf-8"))
    studies = sorted(CATALOGUE.studies)
    borrowers = {
        one.study: {f"results/${{scale}}/{CATALOGUE.artifact(name).study}" for name in one.uses_at(scale)}
        for one in CATALOGUE
        for scale in SCALES
        if any(CATALOGUE.artifact(name).study != one.study for name in one.uses_at(scale))
    }
    alike = pipeline["stages"]["study"]
    assert sorted([*alike["foreach"], *borrowers]) == studies
    for study, tables in borrowers.items():
        own, as_others = pipeline["stages"][study], str(alike["do"]).replace("${item}", study)
        assert set(own["deps"]) == {*alike["do"]["deps"], *tables}
        assert str({**own, "deps": alike["do"]["deps"]}) == as_others
    of_gallery = pipeline["stages"]["gallery"]["deps"]
    assert sorted(name for name in of_gallery if name.startswith("results/")) == [
        f"results/${{scale}}/{study}" for study in studies
    ]
    assert sorted(pipeline["metrics"]) == [f"results/${{scale}}/{study}/claims.json" for study in studies]
    pictures = sorted(f"results/${{scale}}/{one.study}/{one.name}.png" for one in CATALOGUE)
    assert sorted(pipeline["plots"]) == pictures


def test_lock_is_exact_and_holds_no_address() -> None:
    lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", pin) for pin in pins)
    assert "torch==2.13.0" in pins
