"""Resolve requirements.lock anew: pip's own resolver on pyproject.toml's dependencies, one exact version a line.

neural-tangents is pinned by hand and left out of the resolution, because its declared dependencies hold TensorFlow.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
WITHOUT_DEPENDENCIES = ("neural-tangents==0.6.5",)


def main() -> None:
    old = LOCK.read_text(encoding="utf-8").splitlines()
    head = [line for line in old if line.startswith("#")]
    torch = next(line for line in old if line.startswith("torch=="))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = [name for names in project["optional-dependencies"].values() for name in names]
    wanted = [name for name in (*project["dependencies"], *optional) if name != "torch"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        call = ["pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
        subprocess.run([sys.executable, "-m", *call, torch, *wanted], check=True)
        found = [entry["metadata"] for entry in json.loads(report.read_text(encoding="utf-8"))["install"]]
    pins = [f"{one['name']}=={one['version'].split('+')[0]}" for one in found if not one["name"].startswith("nvidia")]
    lines = sorted({*pins, *WITHOUT_DEPENDENCIES}, key=str.lower)
    LOCK.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
