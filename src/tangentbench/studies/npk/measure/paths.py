"""Figure 1: the paths of a toy network, which of them each example activates, and which ones examples share."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tangentbench.studies.npk.settings import ToyNetwork
from tangentbench.studies.registry import Context, study
from tangentbench.theory.paths import (
    enumerate_paths,
    gated_output,
    path_activity,
    path_features,
    path_kernel,
    path_overlap,
    path_values,
    shared_paths,
)


@study("npk_fig1")
def toy_network(context: Context, settings: ToyNetwork) -> pd.DataFrame:
    """One row per number, distinguished by `quantity`; nodes, paths and examples count from 1 as in the figure.

    The weights are drawn from the seed; only the network's output depends on them.
    """
    signals = np.asarray(settings.inputs, dtype=float)
    layers = [np.asarray(layer, dtype=float) for layer in zip(*settings.gates, strict=True)]
    widths = [layer.shape[1] for layer in layers]
    paths = enumerate_paths(signals.shape[1], widths)
    activity = path_activity(layers, paths)
    features = path_features(signals, activity, paths)
    weights = _draw_weights(context.seed, [signals.shape[1], *widths, 1])
    outputs = gated_output(signals, weights, layers)
    counted, product = shared_paths(activity, signals.shape[1]), path_overlap(layers)
    pairs = {
        "Lambda counted": counted,
        "Lambda by layers": product,
        "Lambda difference": counted - product,
        "kernel difference": features @ features.T - path_kernel(signals, layers),
    }
    singles = {"output": outputs, "output difference": features @ path_values(weights, paths) - outputs}

    rows: list[dict[str, Any]] = [{"quantity": "paths", "value": len(paths)}]
    rows += _path_rows(paths, {"activity": activity, "path feature": features})
    rows += _gate_rows(layers)
    rows += _example_rows(pairs, singles)
    table = pd.DataFrame(rows)
    counts = [column for column in table.columns if column not in ("quantity", "value")]
    return table.astype(dict.fromkeys(counts, "Int64") | {"value": float})


def _path_rows(paths: np.ndarray, tables: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Tables (examples, paths) as rows."""
    return [
        {"quantity": name, "example": example + 1, "path": path + 1, **_nodes_of(paths[path]), "value": values[path]}
        for name, table in tables.items()
        for example, values in enumerate(table)
        for path in range(len(paths))
    ]


def _gate_rows(layers: Sequence[np.ndarray]) -> list[dict[str, Any]]:
    """The gates of each layer (examples, units) as rows."""
    return [
        {"quantity": "gate", "example": example + 1, "layer": layer + 1, "unit": unit + 1, "value": value}
        for layer, table in enumerate(layers)
        for example, values in enumerate(table)
        for unit, value in enumerate(values)
    ]


def _example_rows(pairs: Mapping[str, np.ndarray], singles: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Tables of pairs of examples and of single examples as rows, and the largest of each difference."""
    rows: list[dict[str, Any]] = [
        {"quantity": name, "example": first + 1, "other": second + 1, "value": value}
        for name, table in pairs.items()
        for (first, second), value in np.ndenumerate(table)
    ]
    rows += [
        {"quantity": name, "example": example + 1, "value": value}
        for name, values in singles.items()
        for example, value in enumerate(values)
    ]
    rows += [
        {"quantity": f"largest {name}", "value": np.abs(values).max()}
        for name, values in {**pairs, **singles}.items()
        if name.endswith("difference")
    ]
    return rows


def _nodes_of(path: np.ndarray) -> dict[str, int]:
    """The nodes a path passes through: its input and its unit in each hidden layer."""
    return {"input": int(path[0]) + 1} | {f"unit_{layer}": int(unit) + 1 for layer, unit in enumerate(path[1:], 1)}


def _draw_weights(seed: int, sizes: Sequence[int]) -> list[np.ndarray]:
    """Normal weights between layers of the given sizes, each of variance one over its fan-in."""
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((below, above)) / np.sqrt(below) for below, above in itertools.pairwise(sizes)]
