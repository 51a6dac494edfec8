"""Table 1: finite networks and exact kernels on ten classes, for every depth, and the vanilla kernel on all images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
from tqdm import tqdm

from tangentbench.datasets.choice import select
from tangentbench.studies.cntk.cells import parse_cells
from tangentbench.studies.cntk.measure.accuracy import Fit, exact_accuracy
from tangentbench.studies.cntk.measure.networks import Search, network_accuracies
from tangentbench.studies.cntk.plans import NETWORK_COLUMNS, TABLE1, Convolutional, table1_plans, vanilla_plans
from tangentbench.studies.registry import Context, study


@study("cntk_table1")
def networks_and_kernels(
    context: Context,
    *,
    cells: Sequence[str],
    filter_size: int,
    label_offset: float,
    ridge: float,
    gap_trains_first_and_last: bool,
    vanilla_trains_first_and_last: bool,
    image_side: int,
    pixels: str,
    subset: str,
    train_images: Mapping[str, int],
    test_images: Mapping[str, int],
    subsets: Mapping[str, int],
    cnn_channels: Sequence[int],
    cnn_steps: Sequence[float],
    cnn_kappas: Sequence[float],
    cnn_epochs: int,
    cnn_batch_size: int,
    cnn_loss: str,
    cnn_runs: int,
    cnn_chosen_on: str,
) -> pd.DataFrame:
    """Accuracies in percent (`value`); `seed` numbers a kernel's random subset of training images, a network's run.

    cells: columns and the depths to compute in one job, "cntk_v 3 4 6, cntk_v_2k 3 4 6".
    train_images, test_images, subsets: for each column; one without `subsets` has a single set of training images.
    image_side: images are averaged down to it.
    """
    fit = Fit(ridge, label_offset)
    search = Search(cnn_channels, cnn_steps, cnn_kappas, cnn_epochs, cnn_batch_size, cnn_loss, cnn_runs, cnn_chosen_on)
    common = Convolutional(
        filter_size, image_side, pixels, subset, vanilla_trains_first_and_last, gap_trains_first_and_last
    )
    numbers = {"train_images": train_images, "test_images": test_images, "subsets": subsets}
    rows: list[dict[str, Any]] = []
    for name, depth in tqdm(parse_cells(cells, TABLE1), desc="Table 1", disable=None):
        if name in NETWORK_COLUMNS:
            found = network_accuracies(
                name,
                depth,
                filter_size,
                common.trains_first_last(NETWORK_COLUMNS[name]),
                select(context.dataset, common.images(train_images[name], test_images[name]), context.seed),
                fit,
                search,
                seed=context.seed,
                work=context.work,
            )
        else:
            plans = table1_plans(cells=[f"{name} {depth}"], **numbers, **asdict(common))
            found = [{"seed": plan.images.subset_number, **exact_accuracy(context, plan, fit)} for plan in plans]
        rows += [{"column": name, "depth": depth, **row} for row in found]
    return pd.DataFrame(rows)


@study("cntk_vanilla_full")
def vanilla_kernel_on_all_images(
    context: Context,
    *,
    depths: Sequence[int],
    filter_size: int,
    label_offset: float,
    ridge: float,
    vanilla_trains_first_and_last: bool,
    image_side: int,
    pixels: str,
    subset: str,
    train_images: int,
    test_images: int,
) -> pd.DataFrame:
    """The column CNTK-V of Table 1 alone, a job a depth."""
    common = Convolutional(filter_size, image_side, pixels, subset, vanilla_trains_first_and_last)
    plans = vanilla_plans(depths=depths, train_images=train_images, test_images=test_images, **asdict(common))
    fit = Fit(ridge, label_offset)
    return pd.DataFrame(
        [
            {"column": plan.group, "depth": plan.kernel["depth"], **exact_accuracy(context, plan, fit)}
            for plan in tqdm(plans, desc="CNTK-V", disable=None)
        ]
    )
