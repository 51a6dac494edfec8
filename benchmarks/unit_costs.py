"""Measure the unit costs behind `tangentbench estimate` and write config/unit_costs.yaml.

Each unit is timed on one thread, best of several, and given in core-seconds. Run it on your own machine for estimates
that fit it: python benchmarks/unit_costs.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
import yaml

from tangentbench.files import written_whole
from tangentbench.paths import Paths, find_root
from tangentbench.report.provenance import cpu_model
from tangentbench.theory.quadrature import expectation

REPEATS = 7
HEAD = """\
# Core-seconds (or GPU-seconds) a unit of work takes, behind `tangentbench estimate`.
# measured: written by benchmarks/unit_costs.py, one thread, best of several. derived: computed from another unit.
"""


def best_seconds(task: Callable[[], object]) -> float:
    task()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


def batched_gflop() -> float:
    """Batched float32 matrix products of the sizes the trainings of many small nets have."""
    runs, samples, width = 4, 200, 256
    left, right = torch.randn(runs, samples, width), torch.randn(runs, width, width)
    gflop = 2e-9 * runs * samples * width * width
    return best_seconds(lambda: [torch.bmm(left, right) for _ in range(10)]) / (10 * gflop)


def eigenvalue_gflop() -> float:
    """Symmetric eigenvalues in float64, counted as 4/3 n^3."""
    size = 400
    matrix = np.cov(np.random.default_rng(0).normal(size=(size, 2 * size)))
    return best_seconds(lambda: np.linalg.eigvalsh(matrix)) / (4e-9 / 3 * size**3)


def quadrature() -> float:
    """One Gaussian expectation of a function with a kink."""
    return best_seconds(lambda: expectation(lambda x: np.maximum(x, 0.0), kinks=(0.0,)))


UNITS: dict[str, tuple[Callable[[], float], str]] = {
    "dense_gflop": (batched_gflop, "a GFLOP of batched float32 matrix products"),
    "eigenvalue_gflop": (eigenvalue_gflop, "a GFLOP of symmetric eigenvalues in float64"),
    "gaussian_expectation": (quadrature, "one Gaussian expectation by quadrature"),
}


def main() -> None:
    torch.set_num_threads(1)
    units = {}
    for name, (measure, what) in UNITS.items():
        seconds = measure()
        print(f"{name}: {seconds:.3e} s, {what}")
        units[name] = {"what": what, "device": "cpu", "seconds": float(f"{seconds:.3g}"), "source": "measured"}
    record = {"measured_on": f"{cpu_model()}, torch {torch.__version__.split('+')[0]}", "units": units}
    with written_whole(Paths(find_root()).unit_costs) as temporary:
        temporary.write_text(HEAD + "\n" + yaml.safe_dump(record, sort_keys=False, width=110), encoding="utf-8")


if __name__ == "__main__":
    main()
