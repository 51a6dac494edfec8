"""`tangentbench doctor`: what this machine would use."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import click
import psutil

from tangentbench import __version__
from tangentbench.cli.examples import examples
from tangentbench.cli.output import json_option, open_project, print_json, print_table
from tangentbench.config import load_settings
from tangentbench.device import CUDA, NoSuchDevice, resolve
from tangentbench.paths import Paths

PACKAGES = ("torch", "jax", "neural-tangents", "numpy", "pandas", "snakemake", "dvc", "seaborn")
TOOLS = ("c++", "cmake", "git", "chromium", "buildah", "podman", "docker")
CONTAINER_RUNNERS = ("apptainer", "singularity")
CONDA = ("conda", "mamba")
VERSION_TIMEOUT_SECONDS = 20
GIB = 2**30
LOW_DISK_GIB = 5.0


@click.command(epilog=examples("tangentbench doctor", "tangentbench doctor --json"))
@json_option
def command(as_json: bool) -> None:
    """Report what would be used here (device, kernels, container, cluster), and what is missing, with a hint."""
    report = examine()
    if as_json:
        print_json(report)
        return
    rows = [(section, key, show(value)) for section, entries in report.items() for key, value in entries.items()]
    print_table("this machine", ("", "", ""), rows)


def show(value: Any) -> str:
    return "–" if value is None else str(value)


def examine() -> dict[str, dict[str, Any]]:
    paths, _ = open_project()
    settings = load_settings(paths)
    usage = shutil.disk_usage(paths.root)
    free = usage.free / GIB
    return {
        "versions": {"tangentbench": __version__, "python": platform.python_version(), **versions()},
        "machine": {
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "usable cores": len(os.sched_getaffinity(0)),
            "memory, GiB": round(psutil.virtual_memory().total / GIB, 1),
            "free disk, GiB": round(free, 1) if free > LOW_DISK_GIB else f"{free:.1f}: low, free some space",
        },
        "compute": compute(str(settings["device"])),
        "jobs": jobs(paths, settings),
        "tools": {tool: shutil.which(tool) is not None for tool in TOOLS},
    }


def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def compute(device: str) -> dict[str, Any]:
    """`device` is the setting; what it comes to here is the first line."""
    import torch

    try:
        used = resolve(device)
    except NoSuchDevice as error:
        used = str(error)
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none: the CPU is used"
    return {
        "device": used,
        "torch build": "CUDA " + torch.version.cuda if torch.version.cuda else "CPU",
        "gpu": gpu,
        "CNTK backend": cntk_backend(gpu=used.startswith(CUDA)),
        "torch threads": torch.get_num_threads(),
        "native core": native_core(),
        "training core": training_core(),
    }


def training_core() -> str:
    from tangentbench.training.engines.native_mlp import chosen_instruction_set

    chosen = chosen_instruction_set()
    return f"instruction_set {chosen}" if chosen else "not built: fully connected networks train with autograd"


def cntk_backend(gpu: bool) -> str:
    from tangentbench.kernels.architectures import vanilla
    from tangentbench.kernels.choice import explained
    from tangentbench.kernels.network import parts

    trunk, gather, _ = parts(vanilla(3))
    return explained("auto", trunk, gather, (32, 32), gpu)[0]


def jobs(paths: Paths, settings: Mapping[str, Any]) -> dict[str, str]:
    """Where Snakemake could run its jobs from here."""
    image = str(settings["container"])
    there = "://" in image or (paths.root / image).is_file()
    runner = first_version(CONTAINER_RUNNERS)
    slurm = first_version(("sbatch",))
    return {
        "--sdm apptainer": runner or "no apptainer here",
        "image": image if there else f"{image} is not built yet: see docs/containers.md",
        "--sdm conda": first_version(CONDA) or "no conda here",
        "Slurm": slurm or "no sbatch here: jobs run on this machine",
    }


def first_version(programs: Sequence[str]) -> str | None:
    """What the first of these programs that is installed says of itself."""
    program = next((name for name in programs if shutil.which(name)), None)
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return f"{program} is here but does not start"
    return done.stdout.strip() or program


def native_core() -> str:
    from tangentbench.kernels._backends import native

    return ", ".join(f"{key} {value}" for key, value in native.describe().items())
