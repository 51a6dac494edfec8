"""Every snippet of the documentation does what it shows: Python is run, commands and targets exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from small_project import ROOT

from tangentbench.cli.main import COMMANDS, group
from tangentbench.datasets import save_dataset
from tangentbench.datasets.prepare import prepare
from tangentbench.paths import Paths
from tangentbench.suite.catalogue import load_catalogue
from tangentbench.suite.gram_plans import declared_plans

DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(DOCS.glob("*.md")),
    *sorted((DOCS / "benchmarks").glob("*.md")),
]
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
FILE_OF_THE_EXAMPLE = re.compile(r"# src/")
"""The files of the README's worked example; tests/support/small_project.py puts them in place and builds them."""
COMMAND = re.compile(r"(?:^|[`(]|    )(?:\.venv/bin/)?tangentbench (?P<name>[a-z]+)(?P<rest>[^\n`#|]*)", re.MULTILINE)
TARGET = re.compile(r"\bmake (?P<target>[a-z][a-z-]*)\b(?= |`|\n|$)")


def blocks(page: Path, language: str) -> list[str]:
    found = (match for match in BLOCK.finditer(page.read_text("utf-8")) if match["language"] == language)
    return [match["text"] for match in found if not FILE_OF_THE_EXAMPLE.match(match["text"])]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


with_python = pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=named)
every_page = pytest.mark.parametrize("page", PAGES, ids=named)


@with_python
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run one after the other in one namespace, in a folder with just the data sets they load."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    texts = blocks(page, "python")
    for name in re.findall(r"data/(\w+)\.npz", "".join(texts)):
        paths = Paths(tmp_path)
        prepared = prepare(name, Paths(ROOT), mirror=None, seed=0, progress=False)
        save_dataset(prepared, paths.dataset(name), paths.dataset_provenance(name))
    for text in texts:
        exec(compile(text, named(page), "exec"), namespace)


@every_page
def test_yaml_can_be_read(page: Path) -> None:
    for text in blocks(page, "yaml"):
        assert yaml.safe_load(text)


@every_page
def test_commands_exist_with_their_options(page: Path) -> None:
    for match in COMMAND.finditer(page.read_text("utf-8")):
        assert match["name"] in COMMANDS, f"{match[0].strip()}: there is no such command"
        said = CliRunner().invoke(group, [match["name"], "--help"]).output
        for option in re.findall(r"(?<= )--[a-z-]+", match["rest"]):
            assert option in said, f"{match[0].strip()}: {match['name']} has no option {option}"


@every_page
def test_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    known = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    shown = re.sub(r"^(?!    |.*`make ).*$", "", page.read_text("utf-8"), flags=re.MULTILINE)
    for match in TARGET.finditer(shown):
        assert match["target"] in known, f"`{match[0]}`: the Makefile has no such target"


@every_page
def test_snakemake_targets_exist(page: Path) -> None:
    paths = Paths(ROOT)
    catalogue = load_catalogue(paths)
    known = {"all", "mine_fig1", *catalogue.studies, *catalogue.by_name}
    known |= {f"gram_{name}" for name in (*declared_plans(paths, "quick"), *catalogue.by_name)}
    studies = "|".join(("gram", *catalogue.studies))
    for call in re.findall(r"^    snakemake ([^\n#]*)", page.read_text("utf-8"), re.MULTILINE):
        for target in re.findall(rf"\b(?:{studies})_\w+", call):
            assert target in known, f"snakemake {call}: there is no target {target}"
