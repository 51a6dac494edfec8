"""Table 2: exact kernels against random features, the gradients of a random finite network, on two classes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from tangentbench.datasets.choice import select
from tangentbench.kernels.gradient_features import GradientKernel
from tangentbench.networks.ntk_cnn import NtkCnnNets
from tangentbench.studies.cntk.cells import Cell
from tangentbench.studies.cntk.measure.accuracy import accuracy_of, exact_accuracy, store_folder
from tangentbench.studies.cntk.networks import random_feature_network
from tangentbench.studies.cntk.plans import table2_cell_plans
from tangentbench.studies.cntk.settings import Table2
from tangentbench.studies.registry import Context, study

LARGEST_TILE = 512
TABLE = ("column", "depth", "seed", "quantity", "images", "value", "train_images", "test_images", "jitter", "residual")


@study("cntk_table2")
def exact_against_random_features(context: Context, settings: Table2) -> pd.DataFrame:
    """Accuracies in percent. Random features: `accuracy` of each draw (`seed`) and `median accuracy` over the draws.

    The column `images` says whether a kernel was trained on the images that are `compared` or on `all`.
    """
    rows: list[dict[str, Any]] = []
    for cell in tqdm(settings.all_cells, desc="Table 2", disable=None):
        measured = _exact_rows if cell.column.method == "kernel" else _random_feature_rows
        rows += [{"column": cell.column.name, "depth": cell.depth, **row} for row in measured(context, settings, cell)]
    return pd.DataFrame(rows, columns=TABLE).astype({"seed": "Int64"})


def _exact_rows(context: Context, settings: Table2, cell: Cell) -> list[dict[str, Any]]:
    plans = table2_cell_plans(settings, cell)
    exact = {plan.images.train: exact_accuracy(context, plan, settings.fit) for plan in plans}
    counts = settings.train_counts(cell.column.pooling)
    return [{**exact[count], "quantity": "accuracy", "images": images} for images, count in counts.items()]


def _random_feature_rows(context: Context, settings: Table2, cell: Cell) -> list[dict[str, Any]]:
    """One row per draw, then their median."""
    pooling = cell.column.pooling
    choice = settings.images.choice(settings.train_counts(pooling)["compared"], settings.test_count(pooling))
    images = select(context.dataset, choice, context.seed)
    network = random_feature_network(settings, cell, context.dataset.input_shape[2])
    rows: list[dict[str, Any]] = []
    for draw in range(settings.draws):
        kernel = GradientKernel(NtkCnnNets(network, [draw], context.seed))
        identity = {"name": "random features", "draw": draw, "seed": context.seed, **asdict(network)}
        tile = min(LARGEST_TILE, kernel.fitting_tile(settings.feature_gib * 2**30))
        with store_folder(context.work, f"{network.kind}-depth{network.depth}-draw{draw}") as folder:
            found = accuracy_of(kernel, identity, images, settings.fit, folder=folder, tile=tile)
        rows.append({"seed": draw, **found, "quantity": "accuracy", "images": "compared"})
    median = float(np.median([row["value"] for row in rows]))
    summary = {name: rows[0][name] for name in ("train_images", "test_images", "images")}
    return [*rows, {**summary, "value": median, "quantity": "median accuracy"}]
