"""The activations themselves: the table of coefficients of non-linearity, and NormReLU beside SeLU."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from tangentbench.studies.conditioning.settings import ActivationCurves, Coefficients
from tangentbench.studies.registry import Context, study
from tangentbench.theory.activations import (
    Activation,
    activation,
    activation_from_setting,
    norm_relu_scale,
    norm_relu_shift,
    selu_constants,
)
from tangentbench.theory.duals import moments, nonlinearity_by_quadrature, nonlinearity_from_dual
from tangentbench.theory.quadrature import expectation, gaussian_density

_KINKS_SEARCHED = (-6.0, 0.0)
"""lambda(c) rises from 1 to 1.71 between these."""


@study("conditioning_table_mu")
def coefficients_of_nonlinearity(context: Context, settings: Coefficients) -> pd.DataFrame:
    """One row per activation; `origin` tells the paper's (`activations`) from ours (`own_activations`).

    `mu_closed_form` comes from the activation's Gaussian moments in closed form, `mu_from_dual` from its dual in closed
    form (empty where none is known), `mu_quadrature` from the function alone.
    """
    rows = [
        {"activation": sigma.name, "label": sigma.label, "origin": origin, **_nonlinearity(sigma)}
        for origin, activations in (("paper", settings.activations), ("ours", settings.own_activations))
        for sigma in map(activation_from_setting, activations)
    ]
    return pd.DataFrame(rows)


def _nonlinearity(sigma: Activation) -> dict[str, float | None]:
    found = moments(sigma)
    quadrature = nonlinearity_by_quadrature(sigma)
    return {
        "mean": found.mean,
        "variance": found.variance,
        "linear_coefficient": found.linear,
        "mu_closed_form": sigma.mu,
        "mu_from_dual": nonlinearity_from_dual(sigma),
        "mu_quadrature": quadrature,
        "difference": None if sigma.mu is None else abs(quadrature - sigma.mu),
    }


@study("conditioning_fig2")
def norm_relu_beside_selu(context: Context, settings: ActivationCurves) -> pd.DataFrame:
    """Both curves on `points` inputs between the two of `inputs` (and at both kinks), and what normalises them.

    One row per number: `quantity`, the `activation` it belongs to (empty where it compares the two), `x`, `value`.
    """
    c, (low, high) = settings.c, settings.inputs
    ours, theirs = activation("norm_relu", c=c), activation("selu")
    kinks = (*ours.kinks, *theirs.kinks)
    grid = np.union1d(np.linspace(low, high, settings.points), kinks)
    gap = ours(grid) - theirs(grid)
    curves = [
        ("curve", ours.name, ours(grid)),
        ("curve", theirs.name, theirs(grid)),
        ("difference", None, gap),
        ("weighted difference", None, gap * gaussian_density(grid)),
    ]
    scale = selu_constants().scale
    numbers: list[tuple[str, str | None, float]] = [
        ("scale", ours.name, norm_relu_scale(c)),
        ("scale", theirs.name, scale),
        ("shift", ours.name, norm_relu_shift(c)),
        ("kink with SeLU's scale", ours.name, brentq(lambda kink: norm_relu_scale(kink) - scale, *_KINKS_SEARCHED)),
        ("correlation", None, expectation(lambda x: ours(x) * theirs(x), kinks)),
    ]
    for sigma in (ours, theirs):
        found = moments(sigma)
        numbers += [
            ("mean", sigma.name, found.mean),
            ("second moment", sigma.name, found.second),
            ("mu", sigma.name, nonlinearity_by_quadrature(sigma)),
        ]
    return pd.DataFrame(
        [
            {"quantity": quantity, "activation": name, "x": x, "value": value}
            for quantity, name, values in curves
            for x, value in zip(grid, values, strict=True)
        ]
        + [{"quantity": quantity, "activation": name, "x": None, "value": value} for quantity, name, value in numbers]
    ).astype({"x": float})
