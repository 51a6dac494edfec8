"""Table 1: test accuracy of the exact kernels on ten classes, for every depth, and its vanilla column on all images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from tqdm import tqdm

from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.kernels.architecture import Pooling
from tangentbench.registry import Context, study
from tangentbench.studies.cntk.accuracy import Fit, store_folder, accuracy_of
from tangentbench.studies.cntk.exact import ExactKernel
from tangentbench.studies.cntk.images import select


@dataclass(frozen=True)
class Column:
    pooling: Pooling
    size: str
    """`all` or `small`, the key of `train_images`."""


COLUMNS = {
    "cntk_v": Column("flatten", "all"),
    "cntk_v_2k": Column("flatten", "small"),
    "cntk_gap": Column("gap", "all"),
    "cntk_gap_2k": Column("gap", "small"),
}


@study("cntk_table1")
def kernels_on_ten_classes(
    context: Context,
    *,
    cells: Sequence[str],
    filter_size: int,
    label_offset: float,
    ridge: float,
    gap_trains_first_and_last: bool,
    vanilla_trains_first_and_last: bool,
    pixels: str,
    subset: str,
    train_images: Mapping[str, int],
    test_images: Mapping[str, int],
    subsets: Mapping[str, int],
) -> pd.DataFrame:
    """Accuracies in percent; `seed` numbers the random subset of training images.

    cells: a column and the depths to compute in one job, "cntk_v 3 4 6".
    train_images, subsets: for the columns with `all` images and with a `small` number; test_images and subsets: for
        the `vanilla` and the `gap` columns.
    """
    fit = Fit(ridge, label_offset)
    trains = {"flatten": vanilla_trains_first_and_last, "gap": gap_trains_first_and_last}
    rows = []
    for column, depth in tqdm([pair for cell in cells for pair in parse_cell(cell)], desc="Table 1", disable=None):
        pooling, size = COLUMNS[column].pooling, COLUMNS[column].size
        kind = "gap" if pooling == "gap" else "vanilla"
        exact = ExactKernel(pooling, depth, filter_size, trains[pooling], context.threads)
        # all images are one set: there is nothing to draw again
        for number in range(subsets[kind] if size == "small" else 1):
            images = select(
                context.dataset,
                train=train_images[size],
                test=test_images[kind],
                pixels=pixels,
                subset=subset,
                subset_number=number,
                seed=context.seed,
            )
            with store_folder(context.work) as work:
                folder = work / f"{column}-depth{depth}-subset{number}"
                found = accuracy_of(exact.kernel(), exact.settings, images, fit, folder=folder, tile=exact.tile)
            rows.append({"column": column, "depth": depth, "seed": number, **found})
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
    pixels: str,
    subset: str,
    train_images: int,
    test_images: int,
) -> pd.DataFrame:
    """The column CNTK-V of Table 1 alone, a job a depth."""
    return kernels_on_ten_classes(
        context,
        cells=[" ".join(["cntk_v", *map(str, depths)])],
        filter_size=filter_size,
        label_offset=label_offset,
        ridge=ridge,
        gap_trains_first_and_last=False,
        vanilla_trains_first_and_last=vanilla_trains_first_and_last,
        pixels=pixels,
        subset=subset,
        train_images={"all": train_images},
        test_images={"vanilla": test_images},
        subsets={},
    )


def parse_cell(cell: str) -> list[tuple[str, int]]:
    """("cntk_v", 3) and ("cntk_v", 4) of "cntk_v 3 4"."""
    column, *depths = cell.split()
    if column not in COLUMNS:
        raise UnknownName("column", column, COLUMNS)
    if not depths or not all(depth.isdigit() for depth in depths):
        raise TangentbenchError(f"the cell '{cell}' is not a column and its depths: write it like 'cntk_v 3 4 6'")
    return [(column, int(depth)) for depth in depths]
