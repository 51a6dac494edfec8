"""envs/*.yaml: enough for the rules that use them."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.utils import canonicalize_name
from small_project import Project

from tangentbench.suite.fingerprint import Fingerprints

ROOT = Path(__file__).resolve().parents[2]
RULES = sorted((ROOT / "workflow" / "rules").glob("*.smk"))
FAMILIES = sorted(file.stem for file in (ROOT / "envs").glob("*.yaml"))
ROOMS = {
    "data": ["tangentbench.datasets"],
    "measure": ["tangentbench.studies", "tangentbench.datasets.store", "tangentbench.suite.provenance"],
    "figures": ["tangentbench.studies.style", "tangentbench.suite.table_io"],
    "report": ["tangentbench.claims", "tangentbench.report.gallery", "tangentbench.claims.verdicts"],
}
"""The parts of the package that a family's jobs import."""
WITH_A_GPU = {"triton"}
"""What only a CUDA build of torch brings; without it the code that imports it is not reached."""

COMMON = {
    "tangentbench",
    *(f"tangentbench.{name}" for name in ("atomic", "config", "device", "errors", "paths")),
    *(f"tangentbench.{name}" for name in ("studies.registry", "suite.catalogue", "suite.provenance")),
}
"""What jobs of every family import; what these need in turn, they import where it is needed."""
GRAPH = Fingerprints().graph

ONLY_THESE = '''
"""Refuses to import what is installed but not in the environment under test."""
import importlib.abc, sys
from importlib.metadata import packages_distributions

ALLOWED = {allowed!r}
OWNERS = {{name: {{owner.lower().replace("_", "-").replace(".", "-") for owner in owners}}
          for name, owners in packages_distributions().items()}}

class OnlyThese(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in OWNERS and not OWNERS[top] & ALLOWED and top not in ("tangentbench", "pip"):
            raise ModuleNotFoundError(f"{{top}} is not in the environment", name=top)
        return None

sys.meta_path.insert(0, OnlyThese())
'''


def packages_of(family: str) -> set[str]:
    """Canonical names of what an environment holds, with what its script adds."""
    text = yaml.safe_load((ROOT / "envs" / f"{family}.yaml").read_text(encoding="utf-8"))
    pins = next(entry["pip"] for entry in text["dependencies"] if isinstance(entry, dict))
    script = ROOT / "envs" / f"{family}.post-deploy.sh"
    added = re.findall(r"^pip install --no-deps (\S+)$", script.read_text(), re.MULTILINE) if script.exists() else []
    return {str(canonicalize_name(pin.split("==")[0])) for pin in [*pins, *added]}


def test_every_rule_names_an_environment_that_is_there() -> None:
    named = {name for file in RULES for name in re.findall(r"envs/(\w+)\.yaml", file.read_text(encoding="utf-8"))}
    assert named == set(FAMILIES) == set(ROOMS)


@pytest.mark.parametrize("family", FAMILIES)
def test_environment_holds_what_its_rooms_import(family: str) -> None:
    owners = packages_distributions()
    missing = {}
    for module in modules_of(family):
        for name in third_party(module) - WITH_A_GPU:
            found = {str(canonicalize_name(owner)) for owner in owners.get(name, [name])}
            if not found & packages_of(family):
                missing[name] = module
    assert not missing


def modules_of(family: str) -> set[str]:
    """The modules of the rooms and all modules of the package they import."""
    reached: set[str] = set()
    rooms = [module for module in GRAPH.files for room in ROOMS[family] if f"{module}.".startswith(f"{room}.")]
    drawing = {module for module in rooms if ".figures." in f"{module}." or module.endswith(".style")}
    waiting = [module for module in rooms if family == "figures" or module not in drawing]
    while waiting:
        module = waiting.pop()
        if module not in reached | COMMON and module in GRAPH.files:
            reached.add(module)
            waiting += imported(module)
    return reached


def imported(module: str) -> set[str]:
    facts = GRAPH.facts(module)
    within = (one for definition in facts.definitions.values() for one in definition.code.imports)
    return {*facts.imports, *within}


def third_party(module: str) -> set[str]:
    names = {name.partition(".")[0] for name in imported(module)}
    return {name for name in names if name not in sys.stdlib_module_names and name != "tangentbench"}


@pytest.mark.pipeline
@pytest.mark.parametrize(
    "family, calls",
    [
        ("data", ["dataset mnist5k"]),
        ("measure", ["measure mine_fig1 widths=64 --scale quick", "table mine_fig1 --scale quick"]),
        ("figures", ["figure mine_fig1 --scale quick"]),
        ("report", ["claims mine --scale quick", "gallery --scale quick"]),
    ],
)
def test_jobs_run_with_nothing_else(family: str, calls: list[str], built_project: Project, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(ONLY_THESE.format(allowed=packages_of(family)), encoding="utf-8")
    for call in calls:
        done = subprocess.run(
            [sys.executable, "-m", "tangentbench.suite.steps", *call.split()],
            cwd=built_project.root,
            env={**built_project.environment, "PATH": "/usr/bin:/bin", "PYTHONPATH": f"{tmp_path}:src"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
