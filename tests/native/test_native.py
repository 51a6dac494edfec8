"""The C++ sources: every instruction set against plain loops (ctest), and no function shared between them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from small_project import ROOT

BUILD = ROOT / "build" / "native-tests"
OPTIONS = ("-DTANGENTBENCH_TESTS=ON", "-DTANGENTBENCH_OPTIMISATION=-O1")
PER_INSTRUCTION_SET = re.compile(r"(portable|avx2|avx512)\.cpp\.o$")


def run(*call: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in call], capture_output=True, text=True, check=False, timeout=800)


@pytest.fixture(scope="module")
def build() -> Path:
    """Both libraries and the programs of src/native/tests; kept, so that only what changed is compiled again."""
    missing = [name for name in ("cmake", "ninja", "c++") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    for call in (
        ("cmake", "-S", ROOT / "src/native", "-B", BUILD, "-G", "Ninja", *OPTIONS),
        ("cmake", "--build", BUILD),
    ):
        done = run(*call)
        assert done.returncode == 0, done.stdout + done.stderr
    return BUILD


def test_every_instruction_set_agrees_with_plain_loops(build: Path) -> None:
    done = run("ctest", "--test-dir", build, "--output-on-failure")
    assert done.returncode == 0, done.stdout
    assert re.search(r"100% tests passed.* out of [1-9]", done.stdout), done.stdout


def test_no_function_is_shared_between_instruction_sets(build: Path) -> None:
    """The linker keeps one of several weak definitions: code of one instruction set would run in another's place."""
    if shutil.which("nm") is None:
        pytest.skip("nm not installed")
    objects = [file for file in build.glob("CMakeFiles/*_core.dir/*/*.o") if PER_INSTRUCTION_SET.search(file.name)]
    assert len(objects) % 3 == 0 and objects
    defined: Counter[tuple[str, str]] = Counter()
    for file in objects:
        lines = run("nm", "--defined-only", "--format=posix", file).stdout.splitlines()
        assert lines, f"nm finds nothing in {file}"
        defined.update((file.parent.name, line.split()[0]) for line in lines if line.split()[1] in "Wu")
    shared = sorted(name for (_, name), count in defined.items() if count > 1)
    assert not shared, f"defined for several instruction sets: {', '.join(shared)}"
