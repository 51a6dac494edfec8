"""Table 1: finite networks and exact kernels on ten classes, for every depth, and the vanilla kernel on all images."""

from __future__ import annotations

from typing import Any

import pandas as pd
from tqdm import tqdm

from tangentbench.studies.cntk.cells import Cell
from tangentbench.studies.cntk.measure.accuracy import exact_accuracy
from tangentbench.studies.cntk.measure.search import network_accuracies
from tangentbench.studies.cntk.plans import table1_cell_plans, vanilla_plans
from tangentbench.studies.cntk.settings import Table1, VanillaFull
from tangentbench.studies.registry import Context, study


@study("cntk_table1")
def networks_and_kernels(context: Context, settings: Table1) -> pd.DataFrame:
    """Accuracies in percent (`value`); `seed` numbers a kernel's random subset of training images, a network's run."""
    rows: list[dict[str, Any]] = []
    for cell in tqdm(settings.all_cells, desc="Table 1", disable=None):
        measured = network_accuracies if cell.column.method == "network" else _kernel_accuracies
        rows += [{"column": cell.column.name, "depth": cell.depth, **row} for row in measured(context, settings, cell)]
    return pd.DataFrame(rows)


def _kernel_accuracies(context: Context, settings: Table1, cell: Cell) -> list[dict[str, Any]]:
    """One row per subset of the training images."""
    plans = table1_cell_plans(settings, cell)
    return [{"seed": plan.images.subset_number, **exact_accuracy(context, plan, settings.fit)} for plan in plans]


@study("cntk_vanilla_full")
def vanilla_kernel_on_all_images(context: Context, settings: VanillaFull) -> pd.DataFrame:
    """The column CNTK-V of Table 1 alone, one job per depth."""
    return pd.DataFrame(
        [
            {"column": plan.group, "depth": plan.kernel["depth"], **exact_accuracy(context, plan, settings.fit)}
            for plan in tqdm(vanilla_plans(settings), desc="CNTK-V", disable=None)
        ]
    )
