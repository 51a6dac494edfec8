"""Theorems 3, 5, 11 and 59: correlations and condition numbers of deep kernels against depth, with their bounds."""

from __future__ import annotations

import pandas as pd
from tqdm import tqdm

from tangentbench.studies.conditioning.measure.correlations import Row, image_rows, pair_rows
from tangentbench.studies.conditioning.measure.deep_kernels import TANGENT, TOP_LAYER, DeepKernel, KernelBounds
from tangentbench.studies.conditioning.measure.families import activation_families
from tangentbench.studies.conditioning.measure.unequal_norms import unequal_norm_rows
from tangentbench.studies.conditioning.settings import DeepKernels, TopLayerKernels
from tangentbench.studies.registry import Context, study
from tangentbench.theory.layer_map import layer_map

_PAIRS = "sphere_pairs"


@study("conditioning_theorem3")
def top_layer_kernel(context: Context, settings: TopLayerKernels) -> pd.DataFrame:
    """One row per number: `data`, `activation`, `family`, `delta`, `depth`, `quantity`, `value`.

    `correlation` is the largest |K_ij| of the pairs, `bound` B(L, delta), `ratio` the largest |K_ij| / B over the pairs
    and the depths since the last record, `decay` the share of the largest |K_ij| that a layer leaves, over 1 - mu/2;
    for images `condition excess` is kappa - 1, next to the corollaries' bounds on it. The family `uncentred` has
    Theorem 11 in place of Theorem 3, `unequal norms` Theorem 59.
    """
    return pd.DataFrame(_rows(context, settings, TOP_LAYER) + unequal_norm_rows(settings))


@study("conditioning_theorem5")
def tangent_kernel(context: Context, settings: DeepKernels) -> pd.DataFrame:
    """As for Theorem 3, of the tangent kernel relative to its diagonal; `diagonal difference` is its distance from
    the closed form of the diagonal, relative, over the depths where that form can be written."""
    return pd.DataFrame(_rows(context, settings, TANGENT))


def _rows(context: Context, settings: DeepKernels, bounds: KernelBounds) -> list[Row]:
    rows: list[Row] = []
    for family, sigma in tqdm(activation_families(settings), desc="activations", disable=None):
        kernel = DeepKernel(bounds, settings, family, sigma, layer_map(sigma))
        for name, dataset in context.datasets.items():
            about = {"data": name, "activation": sigma.name, "label": sigma.label, "family": family}
            found = pair_rows(dataset, kernel) if name == _PAIRS else image_rows(dataset, kernel, context.seed)
            rows += [{**about, **row} for row in found]
    return rows
