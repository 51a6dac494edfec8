"""Cholesky in float32 with refinement against float64: processor time, residuals and distance of the solutions.

python benchmarks/refinement.py --rows 20000      # 2.3 GiB for the matrix in float64, 1.5 GiB for the larger factor
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import scipy

from tangentbench.kernels import ntk
from tangentbench.solvers import Predictor, regress

FEATURES = 32
CLASSES = 10


def timed(matrix: Any, targets: Any, dtype: str, ridge: float) -> tuple[Predictor, float]:
    begin = time.process_time()
    found = regress(matrix, targets, ridge=ridge, method="cholesky", dtype=dtype, progress=False).predictor
    return found, time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--ridges", type=float, nargs="+", default=[1e-1, 1e-3, 0.0])
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(options.rows, FEATURES))
    matrix = ntk(x, depth=3)
    labels = rng.integers(0, CLASSES, options.rows)
    print(f"numpy {np.__version__}, scipy {scipy.__version__}; NTK of depth 3 on {options.rows} Gaussian inputs")
    print(f"{'ridge':>8} {'precision':>9} {'cpu s':>8} {'residual':>9} {'distance':>9}  method")
    for ridge in options.ridges:
        reference, _ = timed(matrix, labels, "float64", ridge)
        norm = np.linalg.norm(reference.coefficients)
        for dtype in ("float64", "float32", "auto"):
            found, seconds = timed(matrix, labels, dtype, ridge)
            distance = np.linalg.norm(found.coefficients - reference.coefficients) / norm
            print(f"{ridge:8g} {dtype:>9} {seconds:8.2f} {found.residual:9.1e} {distance:9.1e}  {found.method}")


if __name__ == "__main__":
    main()
