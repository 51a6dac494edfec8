"""Kernel regression measured: our Cholesky against scipy's, the conjugate gradient, and what 50,000 inputs will take.

    python benchmarks/regression.py [--rows 6000] [--repeats 3] [--output docs/benchmark-regression.json]

Both factorisations run in this process, turn by turn, with the same threads; the best of the repeats counts. On a
machine with other work look at processor time. Memory is the peak of matrix and factor together, in a process of its
own for each.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from tangentbench.atomic import write_json
from tangentbench.gram.matrix import DenseMatrix
from tangentbench.gram.store import Gram
from tangentbench.solvers.cholesky import PANEL, factor_memory, factorise
from tangentbench.solvers.regression import regress

PROJECTED_ROWS = 50_000
CLASSES = 10
RIDGE = 1e-2


def arc_cosine(x1: NDArray[Any], x2: NDArray[Any] | None = None) -> NDArray[Any]:
    """A kernel like those of networks: the first arc-cosine kernel of inputs on the sphere."""
    cosine = np.clip(x1 @ (x1 if x2 is None else x2).T, -1, 1)
    values: NDArray[Any] = (np.sqrt(1 - cosine**2) + cosine * (np.pi - np.arccos(cosine))) / np.pi
    return values


def sphere(rows: int) -> NDArray[np.float32]:
    x = np.random.default_rng(0).normal(size=(rows, 64))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def scipy_factor(matrix: NDArray[Any]) -> None:
    """scipy at its best: a copy in the order LAPACK wants, factorised in place."""
    shifted = matrix.copy(order="F")
    shifted[np.diag_indices_from(shifted)] += RIDGE
    scipy.linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)


def seconds_of(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the wall and of processor time."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - processor


def race(rows: int, dtype: str, repeats: int) -> dict[str, float]:
    matrix = arc_cosine(sphere(rows)).astype(dtype)
    wrapped = DenseMatrix((matrix + matrix.T) / 2, symmetric=True)
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(seconds_of(lambda: factorise(wrapped, RIDGE, dtype=dtype, progress=False)))
        theirs.append(seconds_of(lambda: scipy_factor(wrapped.values)))
    (wall, processor), (scipy_wall, scipy_processor) = (np.min(runs, axis=0).tolist() for runs in (ours, theirs))
    return {
        "ours_seconds": wall,
        "scipy_seconds": scipy_wall,
        "scipy_over_ours": scipy_wall / wall,
        "scipy_over_ours_processor_time": scipy_processor / processor,
        "ours_gflops": rows**3 / 3 / wall / 1e9,
        "ours_gflops_per_processor_second": rows**3 / 3 / processor / 1e9,
    }


def peak_bytes() -> int:
    """The largest resident size of this process (getrusage would count its parent's at the fork)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def memory_of(kind: str, rows: int, answer: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        gram = Gram.create(folder, sphere(rows), kernel={"name": "arc_cosine"}, dtype="float64")
        gram.compute(arc_cosine, progress=False)
        matrix = gram.to_array() if kind == "scipy" else None
        before = peak_bytes()
        if matrix is not None:
            scipy_factor(matrix)
        else:
            scratch = f"{folder}/factor" if kind == "ours_on_disk" else None
            factorise(gram, RIDGE, scratch=scratch, progress=False)
        after = peak_bytes()
    held = 0 if matrix is None else matrix.nbytes
    answer.send(after - before + held)


def memory(kind: str, rows: int) -> float:
    """Peak bytes for matrix and factor together, in units of the full matrix in float64; ours reads a store."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=memory_of, args=(kind, rows, sender))
    process.start()
    grown = receiver.recv()
    process.join()
    return float(grown / (8 * rows**2))


def solves(rows: int) -> dict[str, Any]:
    """Whole regressions from a store: seconds, iterations, residuals."""
    labels = np.arange(rows) % CLASSES
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        gram = Gram.create(folder, sphere(rows), kernel={"name": "arc_cosine"})
        gram.compute(arc_cosine, progress=False)
        v = np.ones((rows, CLASSES))
        gram.matmul(v)
        results["product_seconds"] = seconds_of(lambda: gram.matmul(v))[0]
        for name, options in {
            "cholesky_float64": {"method": "cholesky", "dtype": "float64"},
            "cholesky_float32_refined": {"method": "cholesky", "dtype": "float32"},
            "conjugate_gradient": {"method": "cg"},
        }.items():
            found = regress(gram, labels, ridge=RIDGE, progress=False, **options).predictor  # type: ignore[arg-type]
            results[name] = {
                "seconds": found.seconds,
                "iterations": found.iterations,
                "residual": found.residual,
            }
    return results


def projection(races: dict[str, dict[str, float]]) -> dict[str, Any]:
    """What 50,000 inputs take, if the speed per operation stays: n^3 / 3 operations, n^2 / 2 numbers."""
    found = {}
    for dtype, measured in races.items():
        seconds = PROJECTED_ROWS**3 / 3 / (measured["ours_gflops_per_processor_second"] * 1e9)
        in_memory, on_disk = factor_memory(PROJECTED_ROWS, dtype, PANEL)
        found[dtype] = {
            "factor_processor_minutes": seconds / 60,
            "gib_with_factor_in_memory": in_memory / 2**30,
            "gib_with_factor_on_disk": on_disk / 2**30,
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    races = {dtype: race(arguments.rows, dtype, arguments.repeats) for dtype in ("float64", "float32")}
    results = {
        "rows": arguments.rows,
        "threads": int(os.environ.get("OPENBLAS_NUM_THREADS", os.cpu_count() or 1)),
        "load_average": os.getloadavg()[0],
        "factorisation": races,
        "memory_over_full_matrix": {kind: memory(kind, arguments.rows) for kind in ("ours", "ours_on_disk", "scipy")},
        "regression": solves(arguments.rows),
        "projection_50000": projection(races),
    }
    print(json.dumps(results, indent=2))
    if arguments.output:
        write_json(arguments.output, results)


if __name__ == "__main__":
    main()
