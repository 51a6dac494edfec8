"""Theorems 3, 5, 11 and 59: correlations and condition numbers of deep kernels against depth, with their bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from tangentbench.datasets import Dataset
from tangentbench.errors import UnknownName
from tangentbench.studies.registry import Context, study
from tangentbench.theory.activations import Activation, activation, activation_from_setting
from tangentbench.theory.conditioning import (
    UnequalNorms,
    collapse_bound,
    condition_excess,
    corollary4,
    corollary6,
    corollary8,
    corollary10,
    correlation_bound,
    fixed_point,
    gershgorin,
    tangent_correlation_bound,
    uncentred_bound,
)
from tangentbench.theory.depth_kernels import (
    kernels_by_depth,
    square_matrix,
    tangent_diagonal,
    unit_correlations,
    upper_entries,
)
from tangentbench.theory.duals import normalised, scaled
from tangentbench.theory.layer_map import LayerMap, layer_map
from tangentbench.theory.norm_pairs import norm_relu_paths
from tangentbench.theory.norm_propagation import convergence_constants, norm_relu_propagation

Setting = str | Mapping[str, Any]
Row = dict[str, Any]

PAIRS = "sphere_pairs"
EXTRA_LAYERS = {"proof": 0, "definition": -1}
"""How many activations a network of L layers applies, besides L."""
VANISHED = 1e-100
"""Below this every correlation counts as gone and deeper layers are left out."""
RESOLUTION = 1e-13
"""The distance of two correlations that are not small is not known better than this, and no bound is checked below."""


@dataclass(frozen=True)
class Kernel:
    """What is measured of one of the two kernels, and the paper's bounds on it."""

    tangent: bool
    correlation: Callable[..., np.ndarray]
    """Of depth, delta, mu."""
    printed: Callable[..., np.ndarray]
    """The corollary under Assumption A, as bound on kappa - 1, of depth, delta, mu, n."""
    separated: Callable[..., np.ndarray]
    """The corollary under Assumption B."""


TOP = Kernel(False, correlation_bound, corollary4, corollary8)
TANGENT = Kernel(True, tangent_correlation_bound, corollary6, corollary10)


@study("conditioning_theorem3")
def top_layer_kernel(
    context: Context,
    *,
    activations: Sequence[Setting],
    uncentred_activations: Sequence[Setting],
    deltas: Sequence[float],
    activations_applied: str,
    depth_max: int,
    records: int,
    images: int,
    c: float,
    squared_norms: Sequence[float],
    epsilon: float,
) -> pd.DataFrame:
    """One row a number: `data`, `activation`, `family`, `delta`, `depth`, `quantity`, `value`.

    `correlation` is the largest |K_ij| of the pairs, `bound` B(L, delta), `ratio` the largest |K_ij| / B over the pairs
    and the depths since the record before, `decay` the share of the largest |K_ij| that a layer leaves, over 1 - mu/2;
    for images `condition excess` is kappa - 1, with the corollaries' bounds beside it. The family `uncentred` has
    Theorem 11 in the place of Theorem 3, `unequal norms` Theorem 59.
    """
    settings = Depths(activations_applied, depth_max, records)
    rows = depth_rows(context, TOP, settings, activations, uncentred_activations, deltas, images)
    rows += unequal_norm_rows(settings, c, squared_norms, deltas, epsilon)
    return pd.DataFrame(rows)


@study("conditioning_theorem5")
def tangent_kernel(
    context: Context,
    *,
    activations: Sequence[Setting],
    uncentred_activations: Sequence[Setting],
    deltas: Sequence[float],
    activations_applied: str,
    depth_max: int,
    records: int,
    images: int,
) -> pd.DataFrame:
    """As for Theorem 3, of the tangent kernel relative to its diagonal; `diagonal difference` is its distance from
    the closed form of the diagonal, relative, over the depths where that form can be written."""
    settings = Depths(activations_applied, depth_max, records)
    return pd.DataFrame(depth_rows(context, TANGENT, settings, activations, uncentred_activations, deltas, images))


@dataclass(frozen=True)
class Depths:
    """Which depths are computed (all up to the largest) and which recorded (evenly in the logarithm)."""

    activations_applied: str
    largest: int
    records: int

    def __post_init__(self) -> None:
        if self.activations_applied not in EXTRA_LAYERS:
            raise UnknownName("count of activations", self.activations_applied, EXTRA_LAYERS)

    @property
    def recorded(self) -> list[int]:
        return [int(depth) for depth in np.unique(np.geomspace(1, self.largest, self.records).round())]

    def layers(self, depth: int) -> int:
        """The activations that a network of this depth applies."""
        return depth + EXTRA_LAYERS[self.activations_applied]


def depth_rows(
    context: Context,
    kernel: Kernel,
    depths: Depths,
    activations: Sequence[Setting],
    uncentred: Sequence[Setting],
    deltas: Sequence[float],
    images: int,
) -> list[Row]:
    families: list[tuple[str, Activation]] = [
        *(("normalised", normalised(activation_from_setting(setting))) for setting in activations),
        *(("uncentred", scaled(activation_from_setting(setting))) for setting in uncentred),
    ]
    rows: list[Row] = []
    for family, sigma in tqdm(families, desc="activations", disable=None):
        layer = layer_map(sigma)
        for name, dataset in context.datasets.items():
            if name == PAIRS:
                found = pair_rows(dataset, kernel, depths, layer, family, deltas)
            else:
                found = image_rows(dataset, kernel, depths, layer, family, images, context.seed)
            rows += [
                {"data": name, "activation": sigma.name, "label": sigma.label, "family": family, **row} for row in found
            ]
    return rows


def entries_by_depth(layer: LayerMap, rho: np.ndarray, kernel: Kernel) -> Iterator[tuple[np.ndarray, float]]:
    """The kernel's entries over its diagonal after 0, 1, ... activations, and the logarithm of the diagonal."""
    for kernels in kernels_by_depth(layer, rho, tangent=kernel.tangent):
        yield (kernels.top if kernels.tangent is None else kernels.tangent), kernels.log_diagonal


def walk(
    depths: Depths, layer: LayerMap, rho: np.ndarray, kernel: Kernel
) -> Iterator[tuple[int, np.ndarray, float, bool]]:
    """Every depth from 1 on with its entries, the logarithm of the diagonal, and whether the depth is recorded."""
    recorded = set(depths.recorded)
    by_layer = enumerate(entries_by_depth(layer, rho, kernel))
    layers, (entries, log_diagonal) = next(by_layer)
    for depth in range(1, depths.largest + 1):
        while layers < depths.layers(depth):
            layers, (entries, log_diagonal) = next(by_layer)
        yield depth, entries, log_diagonal, depth in recorded
        if np.abs(entries).max() < VANISHED:
            return


def pair_rows(
    dataset: Dataset, kernel: Kernel, depths: Depths, layer: LayerMap, family: str, deltas: Sequence[float]
) -> list[Row]:
    """Pairs at each delta, each also with one input negated: the bounds are on absolute values."""
    vectors = dataset.x_train.astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    correlations = np.sum(vectors[0::2] * vectors[1::2], axis=1)
    groups = []
    for delta in deltas:
        chosen = correlations[np.abs(1.0 - correlations - delta) < 1e-3 * delta]
        if len(chosen) == 0:
            known = [name.removeprefix("delta=") for name in dataset.classes]
            raise UnknownName("separation of the pairs", f"{delta:g}", known)
        groups.append(np.concatenate([chosen, -chosen]))
    found = grouped_rows(kernel, depths, layer, family, np.stack(groups))
    return [{"delta": deltas[group], **row} for group, row in found]


Measure = Callable[[int, np.ndarray], dict[str, float]]


def grouped_rows(
    kernel: Kernel,
    depths: Depths,
    layer: LayerMap,
    family: str,
    rho: np.ndarray,
    also: Measure = lambda depth, entries: {},
) -> list[tuple[int, Row]]:
    """Each group of correlations (groups, pairs): largest entry, bound and largest ratio of the two, where recorded.

    `also` measures the entries of a group at a recorded depth in other ways.
    """
    bounds = [family_bounds(kernel, depths, layer, family, 1.0 - np.abs(group).max()) for group in rho]
    rest = fixed_point(layer) if family == "uncentred" and not kernel.tangent else 0.0
    rows: list[tuple[int, Row]] = []
    worst, before = np.zeros(len(rho)), np.full(len(rho), np.inf)
    for depth, entries, log_diagonal, recorded in walk(depths, layer, rho, kernel):
        distance = np.abs(entries - rest).max(axis=1)
        worst = np.maximum(worst, distance / [bound[depth] for bound in bounds])
        # a pair of orthogonal inputs stays orthogonal
        left = np.divide(distance, before, out=np.zeros_like(distance), where=before > 0.0)
        decay, before = left / (1.0 - layer.nonaffinity / 2.0), distance
        if not recorded:
            continue
        for group, values in enumerate(entries):
            measured = {"correlation": float(np.abs(values).max()), "smallest correlation": float(values.min())}
            if family == "normalised" and bounds[group][depth - 1] <= 0.5:
                measured |= {"decay": float(decay[group])}
            if np.isfinite(bounds[group][depth]):
                measured |= {"bound": float(bounds[group][depth]), "ratio": float(worst[group])}
            if kernel.tangent:
                measured |= diagonal_difference(layer, depths.layers(depth), log_diagonal)
            measured |= also(depth, values)
            rows += [
                (group, {"depth": depth, "quantity": quantity, "value": value}) for quantity, value in measured.items()
            ]
        worst[:] = 0.0
    return rows


def family_bounds(kernel: Kernel, depths: Depths, layer: LayerMap, family: str, delta: float) -> np.ndarray:
    """The bound on entries at depth 0, 1, ..., largest; infinite where the paper has none."""
    every = np.arange(depths.largest + 1)
    if family == "normalised":
        return kernel.correlation(every, delta, layer.nonaffinity)
    if kernel.tangent:
        return np.full(len(every), np.inf)
    bound = uncentred_bound(every, delta, layer) if fixed_point(layer) < 1.0 else collapse_bound(every, layer)
    return np.where(bound > RESOLUTION, bound, np.inf)


def diagonal_difference(layer: LayerMap, depth: int, log_diagonal: float) -> dict[str, float]:
    if log_diagonal > np.log(np.finfo(float).max) / 2:
        return {}
    return {"diagonal difference": abs(np.exp(log_diagonal) / tangent_diagonal(layer.slope_at_one, depth) - 1.0)}


def image_rows(
    dataset: Dataset, kernel: Kernel, depths: Depths, layer: LayerMap, family: str, images: int, seed: int
) -> list[Row]:
    """Some images of the data set scaled to unit length: entries as for pairs, and the condition number."""
    order = np.random.default_rng(seed).permutation(len(dataset.x_train))[:images]
    gram = unit_correlations(dataset.x_train[np.sort(order)])
    rho, n, mu = upper_entries(gram), len(gram), layer.nonaffinity
    delta = float(1.0 - np.abs(rho).max())
    spectral = float(np.linalg.eigvalsh(gram)[0])

    def conditioning(depth: int, entries: np.ndarray) -> dict[str, float]:
        excess = condition_excess(square_matrix(entries, n) - np.eye(n))
        measured = {"condition excess": excess}
        if family == "normalised":
            bounds = {
                "corollary A": kernel.printed(depth, delta, mu, n),
                "direct A": gershgorin(kernel.correlation(depth, delta, mu), n),
                "corollary B": kernel.separated(depth, spectral, mu, n) if spectral > 0 else np.inf,
            }
            for quantity, bound in bounds.items():
                if np.isfinite(bound):
                    measured |= {quantity: float(bound), f"{quantity} ratio": excess / float(bound)}
        return measured

    inputs = {
        "input separation": delta,
        "input smallest eigenvalue": spectral,
        "input condition excess": condition_excess(gram - np.eye(n)),
    }
    return [
        *({"depth": 0, "quantity": quantity, "value": value} for quantity, value in inputs.items()),
        *(row for _, row in grouped_rows(kernel, depths, layer, family, rho[None, :], conditioning)),
    ]


def unequal_norm_rows(
    depths: Depths, c: float, squared_norms: Sequence[float], deltas: Sequence[float], epsilon: float
) -> list[Row]:
    """Theorem 59: pairs of all the given squared norms at each delta above delta', through layers of NormReLU."""
    low, high = min(squared_norms), max(squared_norms)
    constants = convergence_constants(norm_relu_propagation(c), low, high)
    theorem = UnequalNorms(constants.alpha, constants.delta)
    sigma = activation("norm_relu", c=c)
    assert sigma.mu is not None
    recorded, rows = set(depths.recorded), []
    for delta in (delta for delta in deltas if delta > theorem.delta):
        pairs = [
            (first, second, sign * (1.0 - delta))
            for first in squared_norms
            for second in squared_norms
            for sign in (1, -1)
        ]
        bounds = theorem.bound(np.arange(depths.largest + 1), delta, sigma.mu, epsilon)
        worst = 0.0
        paths = norm_relu_paths(c, *(np.array(column) for column in zip(*pairs, strict=True)))
        for layers, (_, _, rho) in zip(range(depths.layers(depths.largest) + 1), paths, strict=False):
            depth = layers + depths.largest - depths.layers(depths.largest)
            worst = max(worst, float(np.abs(rho).max()) / bounds[depth])
            if depth not in recorded:
                continue
            measured = {"correlation": float(np.abs(rho).max())}
            if np.isfinite(bounds[depth]):
                measured |= {"bound": float(bounds[depth]), "ratio": worst}
            rows += [
                {
                    "data": "unequal norms",
                    "activation": sigma.name,
                    "label": sigma.label,
                    "family": "unequal norms",
                    "delta": delta,
                    "depth": depth,
                    "quantity": quantity,
                    "value": value,
                }
                for quantity, value in measured.items()
            ]
            worst = 0.0
    return rows
