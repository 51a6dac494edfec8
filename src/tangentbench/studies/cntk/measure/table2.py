"""Table 2: exact kernels against random features, the gradients of a random finite network, on two classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from tangentbench.datasets.choice import Selection, select
from tangentbench.errors import UnknownName
from tangentbench.kernels.gradient_features import GradientKernel
from tangentbench.networks.ntk_cnn import NtkCnnNets, NtkCnnSpec
from tangentbench.studies.cntk.cells import parse_cells
from tangentbench.studies.cntk.measure.accuracy import Fit, accuracy_of, exact_accuracy, store_folder
from tangentbench.studies.cntk.plans import POOLINGS, SIZES, TABLE2, Convolutional, table2_plans
from tangentbench.studies.registry import Context, study

RANDOM_FEATURES = {"rf_v": "cnn_v", "rf_gap": "cnn_gap"}
FEATURES_OF = ("trained_layers", "all_layers")
LARGEST_TILE = 512
TABLE = ("column", "depth", "seed", "quantity", "images", "value", "train_images", "test_images", "jitter", "residual")


@study("cntk_table2")
def exact_against_random_features(
    context: Context,
    *,
    cells: Sequence[str],
    filter_size: int,
    channels: int,
    draws: int,
    label_coding: str,
    label_offset: float,
    ridge: float,
    gap_trains_first_and_last: bool,
    vanilla_trains_first_and_last: bool,
    features_of: str,
    image_side: int,
    pixels: str,
    subset: str,
    train_images: Mapping[str, Mapping[str, int]],
    test_images: Mapping[str, int],
    feature_gib: float,
) -> pd.DataFrame:
    """Accuracies in percent. Random features: `accuracy` of each draw (`seed`) and `median accuracy` over the draws.

    cells: columns and the depths to compute in one job, "rf_v 3 4 6, cntk_v 3 4 6".
    train_images: for `vanilla` and `gap`, how many are `compared` (both kinds of kernel) and how many the exact kernel
        is trained on besides (`all`); the column `images` of the table says which. Equal numbers are computed once.
    feature_gib: memory for the features of one block of images.
    """
    if features_of not in FEATURES_OF:
        raise UnknownName("kind of features", features_of, FEATURES_OF)
    fit = Fit(ridge, label_offset, label_coding)
    common = Convolutional(
        filter_size, image_side, pixels, subset, vanilla_trains_first_and_last, gap_trains_first_and_last
    )
    rows: list[dict[str, Any]] = []
    for column, depth in tqdm(parse_cells(cells, TABLE2), desc="Table 2", disable=None):
        kind = SIZES[POOLINGS[column]]
        if column in RANDOM_FEATURES:
            colours = context.dataset.input_shape[2]
            architecture = NtkCnnSpec(
                RANDOM_FEATURES[column],
                depth,
                channels,
                (image_side, image_side, colours),
                filter_size=filter_size,
                train_first_last=common.trains_first_last(POOLINGS[column]) or features_of == "all_layers",
            )
            images = common.images(train_images[kind]["compared"], test_images[kind])
            selection = select(context.dataset, images, context.seed)
            found = random_feature_rows(context, architecture, draws, selection, fit, feature_gib)
        else:
            plans = table2_plans(
                cells=[f"{column} {depth}"], train_images=train_images, test_images=test_images, **asdict(common)
            )
            exact = {plan.images.train: exact_accuracy(context, plan, fit) for plan in plans}
            found = [
                {**exact[count], "quantity": "accuracy", "images": size} for size, count in train_images[kind].items()
            ]
        rows += [{"column": column, "depth": depth, **row} for row in found]
    return pd.DataFrame(rows, columns=TABLE).astype({"seed": "Int64"})


def random_feature_rows(
    context: Context, architecture: NtkCnnSpec, draws: int, images: Selection, fit: Fit, feature_gib: float
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for draw in range(draws):
        kernel = GradientKernel(NtkCnnNets(architecture, [draw], context.seed))
        settings = {"name": "random features", "draw": draw, "seed": context.seed, **asdict(architecture)}
        tile = min(LARGEST_TILE, kernel.fitting_tile(feature_gib * 2**30))
        with store_folder(context.work) as work:
            folder = work / f"{architecture.kind}-depth{architecture.depth}-draw{draw}"
            found = accuracy_of(kernel, settings, images, fit, folder=folder, tile=tile)
        rows.append({"seed": draw, **found, "quantity": "accuracy", "images": "compared"})
    median = float(np.median([row["value"] for row in rows]))
    summary = {name: rows[0][name] for name in ("train_images", "test_images", "images")}
    return [*rows, {**summary, "value": median, "quantity": "median accuracy"}]
