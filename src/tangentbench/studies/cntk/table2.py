"""Table 2: exact kernels against random features, the gradients of a random finite network, on two classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from tangentbench.errors import UnknownName
from tangentbench.kernels.architecture import Pooling
from tangentbench.kernels.gradient_features import GradientKernel
from tangentbench.models.tangent_scaled import WideArchitecture, WideNets
from tangentbench.registry import Context, study
from tangentbench.studies.cntk.accuracy import Fit, accuracy_of, store_folder
from tangentbench.studies.cntk.cells import parse_cells
from tangentbench.studies.cntk.exact import ExactKernel
from tangentbench.studies.cntk.images import Selection, select

RANDOM_FEATURES = {"rf_v": "cnn_v", "rf_gap": "cnn_gap"}
EXACT: dict[str, Pooling] = {"cntk_v": "flatten", "cntk_gap": "gap"}
COLUMNS = (*RANDOM_FEATURES, *EXACT)
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
    rows: list[dict[str, Any]] = []
    for column, depth in tqdm(parse_cells(cells, COLUMNS), desc="Table 2", disable=None):
        kind = "gap" if column.endswith("gap") else "vanilla"
        trains = gap_trains_first_and_last if kind == "gap" else vanilla_trains_first_and_last

        def images_of(size: str, kind: str = kind) -> Selection:
            return select(
                context.dataset,
                train=train_images[kind][size],
                test=test_images[kind],
                side=image_side,
                pixels=pixels,
                subset=subset,
                subset_number=0,
                seed=context.seed,
            )

        if column in EXACT:
            exact = ExactKernel(EXACT[column], depth, filter_size, trains, context.threads)
            found = exact_rows(context, exact, images_of, train_images[kind], fit)
        else:
            colours = context.dataset.input_shape[2]
            architecture = WideArchitecture(
                RANDOM_FEATURES[column],
                depth,
                channels,
                (image_side, image_side, colours),
                filter_size=filter_size,
                train_first_last=trains or features_of == "all_layers",
            )
            found = random_feature_rows(context, architecture, draws, images_of("compared"), fit, feature_gib)
        rows += [{"column": column, "depth": depth, **row} for row in found]
    return pd.DataFrame(rows, columns=TABLE).astype({"seed": "Int64"})


def exact_rows(
    context: Context, exact: ExactKernel, images_of: Callable[[str], Selection], sizes: Mapping[str, int], fit: Fit
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for size, count in sizes.items():
        known = [row for row in rows if row["train_images"] == count]
        found = known[0] if known else exact_accuracy(context, exact, images_of(size), fit)
        rows.append({**found, "quantity": "accuracy", "images": size})
    return rows


def exact_accuracy(context: Context, exact: ExactKernel, images: Selection, fit: Fit) -> dict[str, Any]:
    with store_folder(context.work) as work:
        folder = work / f"{exact.pooling}-depth{exact.depth}-{len(images.y_train)}"
        return accuracy_of(exact.kernel(), exact.settings, images, fit, folder=folder, tile=exact.tile)


def random_feature_rows(
    context: Context, architecture: WideArchitecture, draws: int, images: Selection, fit: Fit, feature_gib: float
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for draw in range(draws):
        kernel = GradientKernel(WideNets(architecture, [draw], context.seed))
        settings = {"name": "random features", "draw": draw, "seed": context.seed, **asdict(architecture)}
        tile = min(LARGEST_TILE, kernel.fitting_tile(feature_gib * 2**30))
        with store_folder(context.work) as work:
            folder = work / f"{architecture.kind}-depth{architecture.depth}-draw{draw}"
            found = accuracy_of(kernel, settings, images, fit, folder=folder, tile=tile)
        rows.append({"seed": draw, **found, "quantity": "accuracy", "images": "compared"})
    median = float(np.median([row["value"] for row in rows]))
    summary = {name: rows[0][name] for name in ("train_images", "test_images", "images")}
    return [*rows, {**summary, "value": median, "quantity": "median accuracy"}]
