"""Theorem 59: inputs of unequal norms through layers of NormReLU."""

from __future__ import annotations

from typing import Any

import numpy as np

from tangentbench.studies.conditioning.measure.deep_kernels import activations_applied, recorded_depths
from tangentbench.studies.conditioning.settings import TopLayerKernels
from tangentbench.theory.activations import activation
from tangentbench.theory.conditioning import UnequalNorms
from tangentbench.theory.norm_pairs import norm_relu_paths
from tangentbench.theory.norm_propagation import convergence_constants, norm_relu_propagation

Row = dict[str, Any]
_NAME = "unequal norms"


def unequal_norm_rows(settings: TopLayerKernels) -> list[Row]:
    """Pairs of all the given squared norms at each delta above delta'."""
    c, squared_norms = settings.unequal_norms.c, settings.unequal_norms.squared_norms
    constants = convergence_constants(norm_relu_propagation(c), min(squared_norms), max(squared_norms))
    theorem = UnequalNorms(constants.alpha, constants.delta)
    sigma = activation("norm_relu", c=c)
    about = {"data": _NAME, "activation": sigma.name, "label": sigma.label, "family": _NAME}
    assert sigma.mu is not None
    return [
        {**about, "delta": delta, **row}
        for delta in settings.deltas
        if delta > theorem.delta
        for row in _rows_at(settings, theorem, delta, sigma.mu)
    ]


def _rows_at(settings: TopLayerKernels, theorem: UnequalNorms, delta: float, mu: float) -> list[Row]:
    """The largest correlation at each recorded depth, the bound, and the largest ratio since the last record."""
    largest_depth, norms = settings.depth_max, settings.unequal_norms
    pairs = [
        (first, second, sign * (1.0 - delta))
        for first in norms.squared_norms
        for second in norms.squared_norms
        for sign in (1, -1)
    ]
    bounds = theorem.bound(np.arange(largest_depth + 1), delta, mu, norms.epsilon)
    paths = norm_relu_paths(norms.c, *(np.array(column) for column in zip(*pairs, strict=True)))
    all_layers, recorded = activations_applied(settings, largest_depth), set(recorded_depths(settings))
    rows: list[Row] = []
    worst = 0.0
    for layers, (_, _, rho) in zip(range(all_layers + 1), paths, strict=False):
        depth, correlation = layers + largest_depth - all_layers, float(np.abs(rho).max())
        worst = max(worst, correlation / bounds[depth])
        if depth not in recorded:
            continue
        measured = {"correlation": correlation}
        if np.isfinite(bounds[depth]):
            measured |= {"bound": float(bounds[depth]), "ratio": worst}
        rows += [{"depth": depth, "quantity": quantity, "value": value} for quantity, value in measured.items()]
        worst = 0.0
    return rows
