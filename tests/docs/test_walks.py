"""The walks of docs/architecture.md name functions that exist, in at most thirty hops each."""

from __future__ import annotations

import ast
import re

import pytest
from small_project import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
HOP = re.compile(r"^(?P<number>\d+)\. `(?P<file>[\w/]+\.py)` `(?P<function>\w+)`", re.MULTILINE)
WALKS = {
    heading: text
    for heading, _, text in (section.partition("\n") for section in PAGE.split("\n## ")[1:])
    if "from target to" in heading
}


@pytest.mark.parametrize("walk", WALKS)
def test_hops_are_numbered_and_few(walk: str) -> None:
    numbers = [int(hop["number"]) for hop in HOP.finditer(WALKS[walk])]
    assert numbers == list(range(1, len(numbers) + 1))
    assert 10 < len(numbers) <= 30
    assert len(numbers) == len(re.findall(r"^\d+\. ", WALKS[walk], re.MULTILINE)), "a hop names a file and a function"


@pytest.mark.parametrize("walk", WALKS)
def test_every_hop_is_there(walk: str) -> None:
    for hop in HOP.finditer(WALKS[walk]):
        tree = ast.parse((ROOT / "src" / "tangentbench" / hop["file"]).read_text("utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert hop["function"] in functions, f"{hop['file']} has no function {hop['function']}"


def test_both_walks_are_there() -> None:
    assert len(WALKS) == 2
