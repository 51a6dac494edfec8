"""A kernel for tests whose entries do not depend on the block they are computed in, to the last bit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SETTINGS: dict[str, Any] = {"name": "gaussian", "scale": 7.0}
SOURCE = Path(__file__).resolve().parents[2] / "src"


def gaussian(x1: Any, x2: Any = None) -> Any:
    x2 = x1 if x2 is None else x2
    x1, x2 = (x.reshape(len(x), -1).astype(np.float64) for x in (x1, x2))
    distance = np.zeros((len(x1), len(x2)))
    for a, b in zip(x1.T, x2.T, strict=True):
        distance += (a[:, None] - b[None]) ** 2
    return np.exp(-distance / SETTINGS["scale"])


def inputs(count: Any, seed: int = 0, shape: Any = (3, 2)) -> Any:
    return np.random.default_rng(seed).normal(size=(count, *shape)).astype(np.float32)


def slow_and_logged(log: Any, seconds: Any) -> Any:
    """The kernel, slowed down, with a line in `log` for every tile (and none for the few entries of a probe)."""

    def kernel(x1: Any, x2: Any = None) -> Any:
        if len(x1) > 2:
            with Path(log).open("a") as stream:
                stream.write("call\n")
            time.sleep(seconds)
        return gaussian(x1, x2)

    return kernel


def peak_bytes() -> Any:
    """The largest resident size of this process (getrusage would count its parent's at the fork)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def start_python(code: Any, *arguments: Any) -> Any:
    """A Python process with the package and this module to import, its arguments in sys.argv."""
    path = os.pathsep.join([str(SOURCE), str(Path(__file__).parent)])
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: Any) -> Any:
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output
