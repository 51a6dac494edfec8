"""The library without the suite: what importing it loads, and the wheel beside numpy and scipy alone."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "jax", "pandas", "scipy.stats", "click", "yaml", "msgspec", "mpmath", "matplotlib", "psutil")
LIBRARY = "import tangentbench.kernels, tangentbench.gram.store, tangentbench.gram.certificate, tangentbench.solvers"


@pytest.mark.parametrize("statement", ["import tangentbench.kernels", LIBRARY])
def test_the_library_loads_nothing_heavy(statement: str) -> None:
    script = f"import sys; {statement}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_requires_numpy_and_scipy_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == ["numpy", "scipy"]
    assert {"torch", "oracle", "suite", "dev"} <= set(project["optional-dependencies"])


def library_example() -> str:
    """The README's example of the library."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    (example,) = (block for block in blocks if "tangentbench.solvers" in block)
    return str(example)


def empty_environment(folder: Path) -> Path:
    """A Python with pip's own packages gone and of ours numpy and scipy, by links to the running environment."""
    venv.create(folder / "venv", with_pip=False)
    packages = next((folder / "venv/lib").iterdir()) / "site-packages"
    for name in ("numpy", "scipy"):
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        origin = Path(spec.origin).parent
        (packages / name).symlink_to(origin)
        # the wheels keep their BLAS beside the package
        if (libraries := origin.with_name(f"{name}.libs")).is_dir():
            (packages / libraries.name).symlink_to(libraries)
    return packages


@pytest.mark.wheel
def test_the_wheel_runs_the_library_example_beside_numpy_and_scipy(tmp_path: Path) -> None:
    source = tmp_path / "source"
    kept = ("pyproject.toml", "README.md", "LICENSE", "src")
    unwanted = shutil.ignore_patterns("*.so", "__pycache__", "CMakeFiles", "CMakeCache.txt")
    source.mkdir()
    for name in kept:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=unwanted)
        else:
            shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path / "dist"), str(source)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    packages = empty_environment(tmp_path)
    install = [*pip, "install", "--no-deps", "--no-index", "--target", str(packages), str(wheel)]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(packages.glob("tangentbench/kernels/_cntk_core*.so")), "the wheel has no native core"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "example.py").write_text(library_example(), encoding="utf-8")
    python = tmp_path / "venv/bin/python"
    done = subprocess.run(
        [python, "-I", "example.py"], cwd=elsewhere, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (elsewhere / "gram-folder/gram.json").is_file()
    missing = subprocess.run([python, "-I", "-c", "import torch"], capture_output=True, text=True)
    assert "ModuleNotFoundError" in missing.stderr
