"""Resolve the locks anew: pip's own resolver on pyproject.toml's dependencies, one exact version a line.

requirements.lock is what every machine installs. requirements-gpu.lock holds what a machine with an NVIDIA GPU installs
besides: the CUDA libraries of the same torch and jax. Both are resolved together, so they never contradict each other.

neural-tangents is pinned by hand and left out of the resolution, because its declared dependencies hold TensorFlow.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
GPU_LOCK = ROOT / "requirements-gpu.lock"
WITHOUT_DEPENDENCIES = ("neural-tangents==0.6.5",)
GPU_EXTRAS = ("triton",)
"""Come with torch's CUDA build and need no place in the common lock."""
CUDA_EXTRA = "cuda13"
"""jax's extra for the CUDA major version that torch's default build is made for."""


def main() -> None:
    torch = next(line for line in LOCK.read_text(encoding="utf-8").splitlines() if line.startswith("torch=="))
    wanted = [name for name in project_dependencies() if name != "torch"]
    common = {pin for pin in resolved([torch, *wanted]) if not pin.startswith("nvidia")}
    write(LOCK, common.union(WITHOUT_DEPENDENCIES))
    write(GPU_LOCK, set(resolved(gpu_requirements(common))) - common)


def project_dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].items()
    optional = [name for extra, names in extras if extra not in GPU_EXTRAS for name in names if not is_own(name)]
    return [*project["dependencies"], *optional]


def is_own(requirement: str) -> bool:
    """An extra that takes in other extras of the project, which are all in the lock by themselves."""
    return requirement.startswith("tangentbench[")


def gpu_requirements(common: Iterable[str]) -> list[str]:
    """The common pins, with jax's CUDA plugin; `===` refuses a CPU build, whose version ends in +cpu."""
    pins = dict(pin.split("==") for pin in common)
    pins["torch"] = f"={pins['torch']}"
    return [f"{name}[{CUDA_EXTRA}]=={pin}" if name == "jax" else f"{name}=={pin}" for name, pin in pins.items()]


def resolved(requirements: Sequence[str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        call = ["pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
        subprocess.run([sys.executable, "-m", *call, *requirements], check=True)
        found = [entry["metadata"] for entry in json.loads(report.read_text(encoding="utf-8"))["install"]]
    return [f"{one['name']}=={one['version'].split('+')[0]}" for one in found]


def write(lock: Path, pins: Iterable[str]) -> None:
    """The pins under the comments that the file has."""
    head = [line for line in lock.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    lock.write_text("\n".join([*head, *sorted(pins, key=str.lower)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
