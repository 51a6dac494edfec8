"""What the README and the repository's own files promise."""

from __future__ import annotations

import re

import yaml
from small_project import ROOT

from tangentbench import __version__
from tangentbench.paths import Paths
from tangentbench.suite.catalogue import load_catalogue

README = (ROOT / "README.md").read_text("utf-8")
CATALOGUE = load_catalogue(Paths(ROOT))


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


def test_lock_is_exact_and_holds_no_address() -> None:
    for name in ("requirements.lock", "requirements-gpu.lock", "requirements-build.lock"):
        lines = (ROOT / name).read_text("utf-8").splitlines()
        text = "\n".join(line for line in lines if not line.startswith("#")) + "\n"
        pin = r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+( \\\n    --hash=sha256:[0-9a-f]{64})+\n"
        assert re.fullmatch(rf"({pin})+", text), f"{name} has a version without sums, or more than versions and sums"
    assert "torch==2.13.0 \\" in (ROOT / "requirements.lock").read_text("utf-8")
