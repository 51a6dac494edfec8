"""The site's extensions: docstrings become what they look like, every room has its page."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from small_project import ROOT

EXTENSIONS = ROOT / "docs" / "_ext"


def extension(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXTENSIONS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("the value `x` of |a|", r"the value ``x`` of \|a\|"),
        ("x* is not `y*`", r"x\* is not ``y*``"),
        ("train_ is a prefix", r"train\_ is a prefix"),
        ("snake_case stays", "snake_case stays"),
    ],
)
def test_special_characters_are_text(line: str, shown: str) -> None:
    assert extension("plain_docstrings").restructured([line]) == [shown]


def test_indented_lines_are_code() -> None:
    lines = ["Example:", "    f(*x)", "", "Then more."]
    shown = extension("plain_docstrings").restructured(lines)
    assert shown == ["Example:", "", "::", "", "    f(*x)", "", "", "Then more."]


def test_every_room_with_public_modules_has_a_page() -> None:
    pages = extension("api_pages")
    package = ROOT / "src" / "tangentbench"
    for room in pages.ROOMS:
        assert pages.modules_of(package, room), f"docs/_ext/api_pages.py names the room {room}, which holds no module"
    rooms = {folder.name for folder in package.iterdir() if (folder / "__init__.py").is_file()}
    assert rooms - set(pages.ROOMS) == {"cli", "report"}, "a new room needs its line in docs/_ext/api_pages.py"


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    """One page per room would take a minute; the pages written by hand and the extensions are what breaks."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("api"))
    for name in ("src", "containers", "compose.yaml"):  # what pages link to
        (tmp_path / name).symlink_to(ROOT / name)
    call = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-D", "api_rooms=claims"]
    done = subprocess.run([*call, "docs", "site"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "tangentbench.claims" in (tmp_path / "site" / "api" / "claims.html").read_text("utf-8")
