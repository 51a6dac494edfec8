"""Table 1: finite networks and exact kernels on ten classes, for every depth, and the vanilla kernel on all images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from tqdm import tqdm

from tangentbench.kernels.architecture import Pooling
from tangentbench.registry import Context, study
from tangentbench.studies.cntk.accuracy import Fit, accuracy_of, store_folder
from tangentbench.studies.cntk.cells import parse_cells
from tangentbench.studies.cntk.exact import ExactKernel
from tangentbench.studies.cntk.images import Selection, select
from tangentbench.studies.cntk.networks import Search, network_accuracies


@dataclass(frozen=True)
class Column:
    pooling: Pooling
    finite: bool = False


COLUMNS = {
    "cnn_v": Column("flatten", finite=True),
    "cnn_gap": Column("gap", finite=True),
    "cntk_v": Column("flatten"),
    "cntk_v_2k": Column("flatten"),
    "cntk_gap": Column("gap"),
    "cntk_gap_2k": Column("gap"),
}


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
    trains = {"flatten": vanilla_trains_first_and_last, "gap": gap_trains_first_and_last}

    def images_of(name: str, number: int = 0) -> Selection:
        return select(
            context.dataset,
            train=train_images[name],
            test=test_images[name],
            side=image_side,
            pixels=pixels,
            subset=subset,
            subset_number=number,
            seed=context.seed,
        )

    rows: list[dict[str, Any]] = []
    for name, depth in tqdm(parse_cells(cells, COLUMNS), desc="Table 1", disable=None):
        column = COLUMNS[name]
        train_first_last = trains[column.pooling]
        if column.finite:
            found = network_accuracies(
                name,
                depth,
                filter_size,
                train_first_last,
                images_of(name),
                fit,
                search,
                seed=context.seed,
                work=context.work,
            )
        else:
            exact = ExactKernel(column.pooling, depth, filter_size, train_first_last, context.threads)
            found = [
                {"seed": number, **exact_accuracy(context, name, exact, images_of(name, number), fit, number)}
                for number in range(subsets.get(name, 1))
            ]
        rows += [{"column": name, "depth": depth, **row} for row in found]
    return pd.DataFrame(rows)


def exact_accuracy(
    context: Context, name: str, exact: ExactKernel, images: Selection, fit: Fit, number: int
) -> dict[str, Any]:
    with store_folder(context.work) as work:
        folder = work / f"{name}-depth{exact.depth}-subset{number}"
        return accuracy_of(exact.kernel(), exact.settings, images, fit, folder=folder, tile=exact.tile)


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
    images = select(
        context.dataset,
        train=train_images,
        test=test_images,
        side=image_side,
        pixels=pixels,
        subset=subset,
        subset_number=0,
        seed=context.seed,
    )
    fit = Fit(ridge, label_offset)
    rows = []
    for depth in tqdm(depths, desc="CNTK-V", disable=None):
        exact = ExactKernel("flatten", depth, filter_size, vanilla_trains_first_and_last, context.threads)
        rows.append({"column": "cntk_v", "depth": depth, **exact_accuracy(context, "cntk_v", exact, images, fit, 0)})
    return pd.DataFrame(rows)
