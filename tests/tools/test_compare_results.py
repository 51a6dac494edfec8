"""The comparison of two checkouts' tables tells bytes, values and shapes apart."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "compare_results.py"
spec = importlib.util.spec_from_file_location("compare_results", TOOL)
assert spec is not None and spec.loader is not None
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


@pytest.mark.parametrize(
    ("theirs", "timed", "said"),
    [
        ("a,b\n1,x\n2,y\n", False, "same bytes"),
        ("a,b\n1,x\n2.5,y\n", False, "values differ in a, by at most 0.5"),
        ("a,b\n1,x\n2.5,y\n", True, "same shape"),
        ("a,b\n1,x\n", True, "2 rows against 1"),
        ("a,c\n1,x\n2,y\n", False, "columns differ: ['b', 'c']"),
    ],
)
def test_says_what_differs(tmp_path: Path, theirs: str, timed: bool, said: str) -> None:
    (tmp_path / "ours.csv").write_text("a,b\n1,x\n2,y\n", encoding="utf-8")
    (tmp_path / "theirs.csv").write_text(theirs, encoding="utf-8")
    assert tool.compare(tmp_path / "ours.csv", tmp_path / "theirs.csv", timed) == said


def test_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "ours.csv").write_text("a\n1\n", encoding="utf-8")
    assert tool.compare(tmp_path / "ours.csv", tmp_path / "theirs.csv", False).startswith("missing: ")
