"""A copy of the project small enough to run Snakemake on in seconds: its only study is the README's worked example."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE_BLOCK = re.compile(r"```(?:yaml|python)\n# (?P<path>\S+)\n(?P<text>.*?)```", re.DOTALL)
COPIED = (
    "Snakefile",
    "workflow",
    "profiles",
    "config",
    "envs",
    "src",
    "README.md",
    "dvc.yaml",
    "requirements.lock",
    "pyproject.toml",
)
COMMAND_TIMEOUT_SECONDS = 300


@dataclass
class Project:
    """A checkout of its own, with the package imported from it and not from ours."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *call: str, **variables: str) -> subprocess.CompletedProcess[str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TANGENTBENCH")}
        environment = {
            **clean,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.root / "src"),
            **self.environment,
            **variables,
        }
        return subprocess.run(
            call,
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=False,
        )

    def snakemake(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("snakemake", "--cores", "2", *arguments, **variables)

    def tangentbench(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("tangentbench", *arguments, **variables)

    def results(self, scale: str = "quick") -> set[str]:
        folder = self.root / "results" / scale
        return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def readme_example() -> dict[str, str]:
    """The files of the README's worked example, by path."""
    return {match["path"]: match["text"] for match in EXAMPLE_BLOCK.finditer((ROOT / "README.md").read_text("utf-8"))}


def copy_checkout(target: Path) -> Project:
    """The project with all its studies and none of its results."""
    target.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy2(source, target / name)
    return Project(target)


def copy_project(target: Path) -> Project:
    """The project with the README's worked example as its only study."""
    project = copy_checkout(target)
    for entry in (target / "src" / "tangentbench" / "studies").glob("*/catalogue.yaml"):
        shutil.rmtree(entry.parent)
    for path, text in readme_example().items():
        (target / path).parent.mkdir(exist_ok=True)
        (target / path).write_text(text, encoding="utf-8")
    return project
