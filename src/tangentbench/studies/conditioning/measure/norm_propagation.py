"""Figure 6: how NormReLU carries squared norms and bias through a layer, and Theorem 59's constants from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tangentbench.studies.registry import Context, study
from tangentbench.theory.activations import activation
from tangentbench.theory.norm_propagation import (
    NormPropagation,
    convergence_constants,
    norm_relu_propagation,
    propagation_by_quadrature,
)

Row = dict[str, float | str | None]


@study("conditioning_fig6")
def norm_relu_norms(
    context: Context, *, c: float, squared_norms: Sequence[float], points: int, layers: int
) -> pd.DataFrame:
    """One row a number: `quantity`, `method` (closed form or quadrature), `gamma` (empty for constants), `value`.

    `points` squared norms lie on either side of 1 up to the two ends `squared_norms`. `bias sum` adds the biases up on
    the path that a squared norm really takes through `layers` layers; Theorem 59 bounds it by delta'.
    """
    low, high = squared_norms
    gamma = np.concatenate([np.linspace(low, 1.0, points), np.linspace(1.0, high, points)[1:]])
    methods = {
        "closed form": norm_relu_propagation(c),
        "quadrature": propagation_by_quadrature(activation("norm_relu", c=c)),
    }
    curves = {method: propagation_curves(propagation, gamma) for method, propagation in methods.items()}
    rows = [
        row(quantity, method, value, at)
        for method, named in curves.items()
        for quantity, values in named.items()
        for at, value in zip(gamma, values, strict=True)
    ]
    for quantity in ("norm transfer", "bias"):
        bends = curvature(gamma, curves["closed form"][quantity])
        rows += [
            row(f"{quantity} curvature", "closed form", value, at) for at, value in zip(gamma[1:-1], bends, strict=True)
        ]
    for method, propagation in methods.items():
        rows += constant_rows(propagation, method, low, high, layers)
    rows += [
        row("largest difference", "both", float(np.abs(values - curves["quadrature"][quantity]).max()), of=quantity)
        for quantity, values in curves["closed form"].items()
    ]
    return pd.DataFrame(rows).astype({"gamma": float})


def row(quantity: str, method: str, value: float, gamma: float | None = None, of: str | None = None) -> Row:
    return {"quantity": quantity, "method": method, "gamma": gamma, "of": of, "value": value}


def propagation_curves(propagation: NormPropagation, gamma: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "norm transfer": propagation.transfer(gamma),
        "norm transfer slope": propagation.transfer_derivative(gamma),
        "constant term": propagation.constant(gamma),
        "bias": propagation.bias(gamma),
    }


def constant_rows(propagation: NormPropagation, method: str, low: float, high: float, layers: int) -> list[Row]:
    constants = convergence_constants(propagation, low, high)
    named = {
        "alpha minus": constants.alpha_low,
        "alpha plus": constants.alpha_high,
        "alpha": constants.alpha,
        "delta minus": constants.delta_low,
        "delta plus": constants.delta_high,
        "delta": constants.delta,
    }
    sums = {start: float(propagation.bias(propagation.path(start, layers)).sum()) for start in (low, high)}
    return [
        *(row(quantity, method, value) for quantity, value in named.items()),
        *(row("bias sum", method, value, start) for start, value in sums.items()),
    ]


def curvature(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Second derivative at the inner points by divided differences, on any spacing."""
    slopes = np.diff(values) / np.diff(x)
    return np.asarray(2.0 * np.diff(slopes) / (x[2:] - x[:-2]))
