"""Figure 6: how NormReLU carries squared norms and bias through a layer, and Theorem 59's constants from it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tangentbench.studies.conditioning.settings import NormPropagationCurves
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
def norm_relu_norms(context: Context, settings: NormPropagationCurves) -> pd.DataFrame:
    """One row per number: `quantity`, `method` (closed form or quadrature), `gamma` (empty for constants), `value`.

    There are `points` squared norms on either side of 1, up to the two ends `squared_norms`. `bias sum` adds the biases
    on the path that a squared norm takes through `layers` layers; Theorem 59 bounds it by delta'.
    """
    low, high = settings.squared_norms
    gamma = np.concatenate([np.linspace(low, 1.0, settings.points), np.linspace(1.0, high, settings.points)[1:]])
    methods = {
        "closed form": norm_relu_propagation(settings.c),
        "quadrature": propagation_by_quadrature(activation("norm_relu", c=settings.c)),
    }
    curves = {method: _propagation_curves(propagation, gamma) for method, propagation in methods.items()}
    rows = [
        _row(quantity, method, value, at)
        for method, named in curves.items()
        for quantity, values in named.items()
        for at, value in zip(gamma, values, strict=True)
    ]
    for quantity in ("norm transfer", "bias"):
        bends = _curvature(gamma, curves["closed form"][quantity])
        rows += [
            _row(f"{quantity} curvature", "closed form", value, at)
            for at, value in zip(gamma[1:-1], bends, strict=True)
        ]
    for method, propagation in methods.items():
        rows += _constant_rows(propagation, method, settings)
    rows += [
        _row("largest difference", "both", float(np.abs(values - curves["quadrature"][quantity]).max()), of=quantity)
        for quantity, values in curves["closed form"].items()
    ]
    return pd.DataFrame(rows).astype({"gamma": float})


def _row(quantity: str, method: str, value: float, gamma: float | None = None, of: str | None = None) -> Row:
    return {"quantity": quantity, "method": method, "gamma": gamma, "of": of, "value": value}


def _propagation_curves(propagation: NormPropagation, gamma: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "norm transfer": propagation.transfer(gamma),
        "norm transfer slope": propagation.transfer_derivative(gamma),
        "constant term": propagation.constant(gamma),
        "bias": propagation.bias(gamma),
    }


def _constant_rows(propagation: NormPropagation, method: str, settings: NormPropagationCurves) -> list[Row]:
    low, high = settings.squared_norms
    constants = convergence_constants(propagation, low, high)
    named = {
        "alpha minus": constants.alpha_low,
        "alpha plus": constants.alpha_high,
        "alpha": constants.alpha,
        "delta minus": constants.delta_low,
        "delta plus": constants.delta_high,
        "delta": constants.delta,
    }
    sums = {start: float(propagation.bias(propagation.path(start, settings.layers)).sum()) for start in (low, high)}
    return [
        *(_row(quantity, method, value) for quantity, value in named.items()),
        *(_row("bias sum", method, value, start) for start, value in sums.items()),
    ]


def _curvature(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Second derivative at the inner points by divided differences, on any spacing."""
    slopes = np.diff(values) / np.diff(x)
    return np.asarray(2.0 * np.diff(slopes) / (x[2:] - x[:-2]))
