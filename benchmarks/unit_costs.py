"""Measure the unit costs behind `tangentbench estimate` and write config/unit_costs.yaml.

Each unit is timed on one thread in processor time, best of several, and given in core-seconds. Run it on your own
machine for estimates that fit it: python benchmarks/unit_costs.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
import yaml

from tangentbench.atomic import written_whole
from tangentbench.gram.matrix import DenseMatrix
from tangentbench.kernels import cntk, layered_kernel, myrtle
from tangentbench.kernels.network import covariance_operations
from tangentbench.paths import Paths, find_root
from tangentbench.solvers.cholesky import factorise
from tangentbench.studies.survey.measure.regimes import NeuralTangents
from tangentbench.suite.provenance import cpu_model
from tangentbench.theory.quadrature import expectation
from tangentbench.training.engines.kernel_flow import integrate

REPEATS = 7
HEAD = """\
# Core-seconds (or GPU-seconds) a unit of work takes, behind `tangentbench estimate`.
# measured: written by benchmarks/unit_costs.py, processor time of one thread, best of several.
# derived: computed from another unit.
"""


def best_seconds(task: Callable[[], object]) -> float:
    task()
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        task()
        times.append(time.process_time() - start)
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


def cntk_gstep(pooling: Literal["gap", "flatten"], images: int) -> float:
    """10^9 steps of the CNTK's recursion: a pair of positions (GAP) or a position (flatten), for an entry's layer.

    images: a multiple of 16, which is as many as the widest vectors hold.
    """
    side, layers = 32, 5
    first, second = np.random.default_rng(0).normal(size=(2, images, side, side, 3)).astype(np.float32)
    steps = images**2 * layers * side ** (4 if pooling == "gap" else 2)
    options: dict[str, Any] = {"depth": layers + 1, "pooling": pooling, "threads": 1, "progress": False}
    return best_seconds(lambda: cntk(first, second, **options)) / (steps * 1e-9)


def cholesky_gflop() -> float:
    """A Cholesky factor in float64 in the panels of the Gram store's regression, counted as n^3 / 3."""
    size = 1500
    matrix = DenseMatrix(np.cov(np.random.default_rng(0).normal(size=(size, 2 * size))), symmetric=True)
    return best_seconds(lambda: factorise(matrix, 0.0, progress=False)) / (size**3 / 3e9)


def convolution_gflop() -> float:
    """A 3x3 convolution of 64 channels on 32x32 images, forward and backward."""
    batch, channels, side = 16, 64, 32
    images = torch.randn(batch, channels, side, side, requires_grad=True)
    weights = torch.randn(channels, channels, 3, 3, requires_grad=True)
    gflop = 3 * 2e-9 * batch * side * side * 9 * channels * channels

    def both_ways() -> None:
        torch.nn.functional.conv2d(images, weights, padding=1).sum().backward()

    return best_seconds(both_ways) / gflop


def layered_gflop() -> float:
    """The native core's recursion for the Myrtle network, by the survey's own count of operations."""
    side = 32
    first, second = np.random.default_rng(0).normal(size=(2, 4, side, side, 3)).astype(np.float32)
    gflop = 16e-9 * covariance_operations(myrtle(), side, side, 3, tangent=True)
    return best_seconds(lambda: layered_kernel(first, second, threads=1)) / gflop


def neural_tangents_gflop() -> float:
    """The same count of operations in neural-tangents, at half the side: processor time of all its threads."""
    side, batch = 16, 4
    images = np.random.default_rng(0).normal(size=(batch, side, side, 3)).astype(np.float32)
    gflop = 1e-9 * batch**2 * covariance_operations(myrtle(), side, side, 3, tangent=True)
    theirs = NeuralTangents(myrtle(), "ntk", (side, side, 3), batch)
    return best_seconds(lambda: theirs.kernel(images, None)) / gflop


def neural_tangents_layer() -> float:
    """Compilation once, since a second one might be remembered."""
    network = myrtle()
    start = time.process_time()
    NeuralTangents(network, "ntk", (16, 16, 3), 2)
    return (time.process_time() - start) / len(network)


def flow_step() -> float:
    count, steps = 32, 200
    gram, wanted = np.eye(count), np.eye(count)[:, :10]
    return best_seconds(lambda: integrate(gram, wanted, loss="cross_entropy", steps=steps, step_share=0.5)) / steps


UNITS: dict[str, tuple[Callable[[], float], str]] = {
    "dense_gflop": (batched_gflop, "a GFLOP of batched float32 matrix products"),
    "eigenvalue_gflop": (eigenvalue_gflop, "a GFLOP of symmetric eigenvalues in float64"),
    "cntk_flatten_gstep": (lambda: cntk_gstep("flatten", 256), "10^9 layer positions of flatten CNTK entries, float32"),
    "cntk_gap_gstep": (lambda: cntk_gstep("gap", 16), "10^9 layer pairs of positions of GAP CNTK entries, float32"),
    "cholesky_gflop": (cholesky_gflop, "a GFLOP of a Cholesky factor in float64"),
    "convolution_gflop": (convolution_gflop, "a GFLOP of float32 convolutions, forward and backward"),
    "gaussian_expectation": (quadrature, "one Gaussian expectation by quadrature"),
    "layered_kernel_gflop": (layered_gflop, "a GFLOP of the native core's recursion through layers, float32"),
    "neural_tangents_gflop": (neural_tangents_gflop, "the same GFLOP of the recursion in neural-tangents, compiled"),
    "neural_tangents_layer": (neural_tangents_layer, "neural-tangents' compilation of one layer"),
    "flow_step": (flow_step, "one step of gradient flow on a small kernel"),
}


DERIVED = {
    "network_gflop": ("dense_gflop", "the same GFLOP where a network's torch does it, on a GPU if the job has one")
}
"""Units with the price of another, which they follow in the file."""


def main() -> None:
    torch.set_num_threads(1)
    units: dict[str, dict[str, Any]] = {}
    for name, (measure, what) in UNITS.items():
        seconds = measure()
        print(f"{name}: {seconds:.3e} s, {what}")
        units[name] = {"what": what, "device": "cpu", "seconds": float(f"{seconds:.3g}"), "source": "measured"}
        for derived, (source, as_what) in DERIVED.items():
            if source == name:
                units[derived] = units[name] | {"what": as_what, "source": "derived"}
    record = {"measured_on": f"{cpu_model()}, torch {torch.__version__.split('+')[0]}", "units": units}
    with written_whole(Paths(find_root()).unit_costs) as temporary:
        temporary.write_text(HEAD + "\n" + yaml.safe_dump(record, sort_keys=False, width=110), encoding="utf-8")


if __name__ == "__main__":
    main()
