"""Entries of a deep kernel against depth, with the bounds on them: for pairs of inputs and for sets of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tangentbench.datasets import Dataset
from tangentbench.errors import UnknownName
from tangentbench.studies.conditioning.measure.deep_kernels import AtDepth, DeepKernel
from tangentbench.studies.conditioning.measure.families import NORMALISED
from tangentbench.theory.conditioning import condition_excess, gershgorin
from tangentbench.theory.depth_kernels import square_matrix, unit_correlations, upper_entries

Row = dict[str, Any]
GroupMeasure = Callable[[int, np.ndarray], dict[str, float]]
"""(depth, entries of a group) to quantities."""


def pair_rows(dataset: Dataset, kernel: DeepKernel) -> list[Row]:
    """Pairs at each delta, each also with one input negated: the bounds are on absolute values."""
    vectors = dataset.x_train.astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    correlations = np.sum(vectors[0::2] * vectors[1::2], axis=1)
    deltas, groups = kernel.settings.deltas, []
    for delta in deltas:
        chosen = correlations[np.abs(1.0 - correlations - delta) < 1e-3 * delta]
        if len(chosen) == 0:
            known = [name.removeprefix("delta=") for name in dataset.classes]
            raise UnknownName("separation of the pairs", f"{delta:g}", known)
        groups.append(np.concatenate([chosen, -chosen]))
    return [{"delta": deltas[group], **row} for group, row in _group_rows(kernel, np.stack(groups))]


def image_rows(dataset: Dataset, kernel: DeepKernel, seed: int) -> list[Row]:
    """Some images of the data set scaled to unit length: entries as for pairs, and the condition number."""
    order = np.random.default_rng(seed).permutation(len(dataset.x_train))[: kernel.settings.images]
    gram = unit_correlations(dataset.x_train[np.sort(order)])
    rho, n = upper_entries(gram), len(gram)
    delta = float(1.0 - np.abs(rho).max())
    smallest = float(np.linalg.eigvalsh(gram)[0])

    def conditioning(depth: int, entries: np.ndarray) -> dict[str, float]:
        excess = condition_excess(square_matrix(entries, n) - np.eye(n))
        measured = {"condition excess": excess}
        if kernel.family == NORMALISED:
            for quantity, bound in _condition_bounds(kernel, depth, delta, smallest, n).items():
                if np.isfinite(bound):
                    measured |= {quantity: float(bound), f"{quantity} ratio": excess / float(bound)}
        return measured

    inputs = {
        "input separation": delta,
        "input smallest eigenvalue": smallest,
        "input condition excess": condition_excess(gram - np.eye(n)),
    }
    return [
        *({"depth": 0, "quantity": quantity, "value": value} for quantity, value in inputs.items()),
        *(row for _, row in _group_rows(kernel, rho[None, :], conditioning)),
    ]


def _condition_bounds(
    kernel: DeepKernel, depth: int, delta: float, smallest_eigenvalue: float, n: int
) -> dict[str, np.ndarray | float]:
    bounds, mu = kernel.bounds, kernel.layer.nonaffinity
    return {
        "corollary A": bounds.corollary_a(depth, delta, mu, n),
        "direct A": gershgorin(bounds.correlation(depth, delta, mu), n),
        "corollary B": bounds.corollary_b(depth, smallest_eigenvalue, mu, n) if smallest_eigenvalue > 0 else np.inf,
    }


def _group_rows(
    kernel: DeepKernel, rho: np.ndarray, also: GroupMeasure = lambda depth, entries: {}
) -> list[tuple[int, Row]]:
    """Rows of each group of correlations (groups, pairs) at the recorded depths, with the number of the group.

    `also` measures the entries of a group at a recorded depth in other ways.
    """
    bounds = [kernel.entry_bounds(1.0 - np.abs(group).max()) for group in rho]
    limit = kernel.limit
    rows: list[tuple[int, Row]] = []
    worst, before = np.zeros(len(rho)), np.full(len(rho), np.inf)
    for now in kernel.by_depth(rho):
        distance = np.abs(now.entries - limit).max(axis=1)
        worst = np.maximum(worst, distance / [bound[now.depth] for bound in bounds])
        # a pair of orthogonal inputs stays orthogonal
        left = np.divide(distance, before, out=np.zeros_like(distance), where=before > 0.0)
        decay, before = left / (1.0 - kernel.layer.nonaffinity / 2.0), distance
        if not now.recorded:
            continue
        for group, values in enumerate(now.entries):
            measured = _measured(kernel, now, values, bounds[group], (float(decay[group]), float(worst[group])))
            measured |= also(now.depth, values)
            rows += [
                (group, {"depth": now.depth, "quantity": quantity, "value": value})
                for quantity, value in measured.items()
            ]
        worst[:] = 0.0
    return rows


def _measured(
    kernel: DeepKernel, now: AtDepth, values: np.ndarray, bounds: np.ndarray, decay_and_ratio: tuple[float, float]
) -> dict[str, float]:
    """The quantities of one group at a recorded depth; the ratio to the bound is the largest since the last record."""
    decay, ratio = decay_and_ratio
    measured = {"correlation": float(np.abs(values).max()), "smallest correlation": float(values.min())}
    if kernel.family == NORMALISED and bounds[now.depth - 1] <= 0.5:
        measured["decay"] = decay
    if np.isfinite(bounds[now.depth]):
        measured |= {"bound": float(bounds[now.depth]), "ratio": ratio}
    if kernel.bounds.tangent:
        difference = kernel.diagonal_difference(now.depth, now.log_diagonal)
        if difference is not None:
            measured["diagonal difference"] = difference
    return measured
