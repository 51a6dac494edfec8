"""Resolve the locks anew: pip's own resolver on pyproject.toml's dependencies, one exact version a line.

requirements.lock is what every machine installs. requirements-gpu.lock holds what a machine with an NVIDIA GPU installs
besides: the CUDA libraries of the same torch and jax. Both are resolved together, so they never contradict each other.

Every version carries the SHA-256 of its files, as the package index publishes them; the build of torch
without CUDA has the sum of the file that this machine's pip finds. `--keep` looks up the
sums of the versions that the locks have.

neural-tangents is pinned by hand and left out of the resolution, because its declared dependencies hold TensorFlow.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from locked import Pin, read_lock, write_lock
from package_index import published_page, sums_on

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
GPU_LOCK = ROOT / "requirements-gpu.lock"
TORCH_CPU_LOCK = ROOT / "requirements-torch-cpu.lock"
BUILD_LOCK = ROOT / "requirements-build.lock"
BUILD_TOOLS = ("setuptools",)
"""What packages without a wheel are built with."""
WITHOUT_DEPENDENCIES = (Pin("neural-tangents", "0.6.5"),)
BUILT_TWICE = "torch"
"""Has a build with CUDA on the public index and one without on its own."""
GPU_EXTRAS = ("triton",)
"""Come with torch's CUDA build and need no place in the common lock."""
CUDA_EXTRA = "cuda13"
"""jax's extra for the CUDA major version that torch's default build is made for."""
DOWNLOADS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="keep the versions and look up their sums")
    common, gpu = (read_lock(LOCK), read_lock(GPU_LOCK)) if parser.parse_args().keep else resolve()
    common = with_sums(common)
    write_lock(LOCK, common)
    write_lock(TORCH_CPU_LOCK, [without_cuda(pin) for pin in common if pin.key == BUILT_TWICE])
    write_lock(BUILD_LOCK, [pin for pin in common if pin.key in BUILD_TOOLS])
    write_lock(GPU_LOCK, with_sums(gpu))


def resolve() -> tuple[list[Pin], list[Pin]]:
    """The pins of both locks."""
    torch = next(pin for pin in read_lock(LOCK) if pin.key == BUILT_TWICE)
    wanted = [name for name in project_dependencies() if name != BUILT_TWICE]
    found = pins_of(report([f"{torch.name}=={torch.version}", *wanted]))
    common = [pin for pin in found if not pin.key.startswith("nvidia")] + list(WITHOUT_DEPENDENCIES)
    here = {pin.key for pin in common}
    return common, [pin for pin in pins_of(report(gpu_requirements(common))) if pin.key not in here]


def project_dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].items()
    optional = [name for extra, names in extras if extra not in GPU_EXTRAS for name in names if not is_own(name)]
    return [*project["dependencies"], *optional]


def is_own(requirement: str) -> bool:
    """An extra that takes in other extras of the project, which are all in the lock by themselves."""
    return requirement.startswith("tangentbench[")


def gpu_requirements(common: Iterable[Pin]) -> list[str]:
    """The common pins, with jax's CUDA plugin; `===` refuses a CPU build, whose version ends in +cpu."""
    pins = {pin.name: pin.version for pin in common if pin not in WITHOUT_DEPENDENCIES}
    pins[BUILT_TWICE] = f"={pins[BUILT_TWICE]}"
    return [f"{name}[{CUDA_EXTRA}]=={pin}" if name == "jax" else f"{name}=={pin}" for name, pin in pins.items()]


def report(requirements: Sequence[str], *options: str) -> list[dict[str, Any]]:
    """What pip would install for the requirements."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        call = ["pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(file)]
        subprocess.run([sys.executable, "-m", *call, *options, *requirements], check=True)
        return list(json.loads(file.read_text(encoding="utf-8"))["install"])


def pins_of(entries: Iterable[dict[str, Any]]) -> list[Pin]:
    found = [entry["metadata"] for entry in entries]
    return [Pin(one["name"], one["version"].split("+")[0]) for one in found]


def with_sums(pins: Sequence[Pin]) -> list[Pin]:
    with ThreadPoolExecutor(DOWNLOADS) as downloads:
        return list(downloads.map(with_published_sums, pins))


def with_published_sums(pin: Pin) -> Pin:
    sums = set(sums_on(published_page(pin.key), pin.version))
    if not sums:
        raise SystemExit(f"lock: the index has no file of {pin.name} {pin.version} for Python 3.11 on Linux")
    return replace(pin, sums=tuple(sorted(sums)))


def without_cuda(pin: Pin) -> Pin:
    """The build without CUDA; the public index does not have it."""
    (entry,) = report([f"{pin.name}=={pin.version}+cpu"], "--no-deps")
    return Pin(pin.name, f"{pin.version}+cpu", (entry["download_info"]["archive_info"]["hashes"]["sha256"],))


if __name__ == "__main__":
    main()
