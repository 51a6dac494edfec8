"""envs/*.yaml, the conda environments of `snakemake --sdm conda`, from requirements.lock: one per family of rules.

A family names the packages it imports; their dependencies follow from the installed packages' own metadata, and every
version from the lock. The suite itself is not in them: jobs import it from the checkout (workflow/rules/common.smk).

neural-tangents declares TensorFlow, which nothing here uses, and a conda file cannot say `--no-deps`; Snakemake runs
the script beside the file for it once the environment is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tangentbench.paths import Paths

PYTHON = "3.11"
WITHOUT_DEPENDENCIES = "neural-tangents"

EVERY_JOB = ("click", "jsonschema", "msgspec", "numpy", "pyyaml")
TABLES = ("pandas", "psutil", "pyarrow")
FAMILIES: dict[str, tuple[str, ...]] = {
    "data": ("mlxtend", "pillow", "requests", "scikit-image", "scikit-learn", "scipy", "tqdm"),
    "measure": (
        *("frozendict", "jax", "jaxlib", "mpmath", "neural-tangents", "scikit-image", "scikit-learn", "scipy"),
        *("requests", "threadpoolctl", "torch", "tqdm", *TABLES),
    ),
    "figures": ("matplotlib", "scipy", "seaborn", *TABLES),
    "report": ("jinja2", "scipy", *TABLES),
}


def environments(paths: Paths) -> dict[Path, str]:
    """The files of envs/ with their text."""
    pins = _locked(paths.lock)
    files: dict[Path, str] = {}
    for family, packages in FAMILIES.items():
        names = _closure([*EVERY_JOB, *packages], pins)
        files[paths.environments / f"{family}.yaml"] = _conda_file(family, (pins[name] for name in sorted(names)))
        if WITHOUT_DEPENDENCIES in packages:
            files[paths.environments / f"{family}.post-deploy.sh"] = _post_deploy(pins[WITHOUT_DEPENDENCIES])
    return files


def _locked(lock: Path) -> dict[str, str]:
    """Canonical name to `name==version`; the sums of files stand on lines of their own, set in."""
    lines = [line for line in lock.read_text(encoding="utf-8").splitlines() if line and line[0] not in "# "]
    return {canonicalize_name(line.split("==")[0]): line.removesuffix(" \\") for line in lines}


def _closure(packages: Iterable[str], pins: dict[str, str]) -> set[str]:
    """The packages and all they need; what is not in the lock (CUDA libraries, optional extras) is left to pip."""
    found: set[str] = set()
    waiting = [canonicalize_name(name) for name in packages if name != WITHOUT_DEPENDENCIES]
    while waiting:
        name = waiting.pop()
        if name in found or name not in pins:
            continue
        found.add(name)
        needed = (Requirement(text) for text in requires(name) or [])
        waiting += [canonicalize_name(one.name) for one in needed if one.marker is None or one.marker.evaluate()]
    return found


def _conda_file(family: str, pins: Iterable[str]) -> str:
    head = [
        f"# For `snakemake --sdm conda` and rules/{family}.smk; written by `make generate` from requirements.lock.",
        f"name: tangentbench-{family}",
        "channels:",
        "  - conda-forge",
        "  - nodefaults",
        "dependencies:",
        f"  - python={PYTHON}",
        "  - pip=25",
        "  - pip:",
    ]
    return "\n".join([*head, *(f"      - {pin}" for pin in pins)]) + "\n"


def _post_deploy(pin: str) -> str:
    why = "# Run by Snakemake once the environment is made: this package declares TensorFlow, which nothing here uses."
    return f"{why}\npip install --no-deps {pin}\n"
