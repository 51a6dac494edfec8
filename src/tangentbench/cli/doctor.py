"""`tangentbench doctor`: what this machine would use."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
from typing import Any

import click
import psutil

from tangentbench import __version__
from tangentbench.cli.examples import examples
from tangentbench.cli.output import json_option, open_project, print_json, print_table

PACKAGES = ("torch", "jax", "neural-tangents", "numpy", "pandas", "snakemake", "dvc", "seaborn")
TOOLS = ("c++", "cmake", "git", "chromium", "sbatch", "apptainer", "buildah")
GIB = 2**30
LOW_DISK_GIB = 5.0


@click.command(epilog=examples("tangentbench doctor", "tangentbench doctor --json"))
@json_option
def command(as_json: bool) -> None:
    """Report versions, threads, GPU, the native core, tools and disk, with a hint for whatever is missing."""
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
        "compute": compute(),
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


def compute() -> dict[str, Any]:
    import torch

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none: the CPU is used"
    return {
        "torch build": "CUDA " + torch.version.cuda if torch.version.cuda else "CPU",
        "gpu": gpu,
        "torch threads": torch.get_num_threads(),
        "native core": native_core(),
        "training core": training_core(),
    }


def training_core() -> str:
    from tangentbench.training.compiled import chosen_instruction_set

    chosen = chosen_instruction_set()
    return f"instruction_set {chosen}" if chosen else "not built: fully connected networks train with autograd"


def native_core() -> str:
    if importlib.util.find_spec("tangentbench.kernels.native") is None:
        return "none in this version"
    native = importlib.import_module("tangentbench.kernels.native")
    return ", ".join(f"{key} {value}" for key, value in native.describe().items())
