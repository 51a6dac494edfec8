"""Rooms import in one direction: the contracts of [tool.importlinter] in pyproject.toml."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def lint(source: Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--config", ROOT / "pyproject.toml"]
    environment = os.environ | {"PYTHONPATH": str(source)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # type: ignore[arg-type]


def test_rooms_import_downwards_only() -> None:
    result = lint(ROOT / "src")
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("theory/paths.py", "tangentbench.kernels.cntk"),
        ("networks/ops.py", "tangentbench.training.loop"),
        ("datasets/store.py", "tangentbench.datasets.prepare.download"),
        ("claims/measures.py", "tangentbench.report.cards"),
    ],
)
def test_an_import_upwards_is_noticed(tmp_path: Path, module: str, forbidden: str) -> None:
    package = tmp_path / "tangentbench"
    for file in (ROOT / "src/tangentbench").rglob("*.py"):
        target = package / file.relative_to(ROOT / "src/tangentbench")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    with (package / module).open("a") as stream:
        stream.write(f"\nimport {forbidden}\n")
    result = lint(tmp_path)
    assert result.returncode == 1 and forbidden.split(".")[1] in result.stdout
