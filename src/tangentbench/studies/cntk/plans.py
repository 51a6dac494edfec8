"""The exact kernels of Tables 1 and 2 as plans: which kernel on which images. The measurements compute them, the work
models price them and the workflow cuts them into tiles; all three make them of the same settings here.
"""

from __future__ import annotations

from dataclasses import replace

from tangentbench.datasets.choice import ImageChoice
from tangentbench.gram.plans import KernelPlan
from tangentbench.studies.cntk.cells import Cell, Column
from tangentbench.studies.cntk.settings import Layers, Table1, Table2, VanillaFull, of_column
from tangentbench.studies.registry import gram_plans


def kernel_plan(layers: Layers, cell: Cell, images: ImageChoice, tile: int) -> KernelPlan:
    column = cell.column
    kernel = {
        "name": "cntk",
        "pooling": column.pooling,
        "depth": cell.depth,
        "filter": layers.filter_size,
        "train_first_last": layers.trains_first_and_last(column.pooling),
    }
    name = f"{column.name}-depth{cell.depth}-subset{images.subset_number}"
    return KernelPlan(name, column.name, images, kernel, tile)


@gram_plans("cntk_table1")
def table1_plans(settings: Table1) -> list[KernelPlan]:
    return [plan for cell in settings.all_cells for plan in table1_cell_plans(settings, cell)]


def table1_cell_plans(settings: Table1, cell: Cell) -> list[KernelPlan]:
    """One plan per subset of the training images; none where a cell is not of an exact kernel."""
    if cell.column.method != "kernel":
        return []
    tile = of_column(settings.tiles, cell.column)
    return [
        kernel_plan(settings.layers, cell, settings.image_choice(cell.column, number), tile)
        for number in range(settings.subset_count(cell.column))
    ]


@gram_plans("cntk_vanilla_full")
def vanilla_plans(settings: VanillaFull) -> list[KernelPlan]:
    images = settings.images.choice(settings.train_images, settings.test_images)
    column = Column("cntk_v", "kernel", "flatten")
    return [kernel_plan(settings.layers, Cell(column, depth), images, settings.tile) for depth in settings.depths]


@gram_plans("cntk_table2")
def table2_plans(settings: Table2) -> list[KernelPlan]:
    return [plan for cell in settings.all_cells for plan in table2_cell_plans(settings, cell)]


def table2_cell_plans(settings: Table2, cell: Cell) -> list[KernelPlan]:
    """One plan per number of training images, equal numbers once; none where a cell is not of an exact kernel."""
    if cell.column.method != "kernel":
        return []
    pooling = cell.column.pooling
    plans = []
    for count in sorted(set(settings.train_counts(pooling).values())):
        images = settings.images.choice(count, settings.test_count(pooling))
        plan = kernel_plan(settings.layers, cell, images, of_column(settings.tiles, cell.column))
        plans.append(replace(plan, name=f"{plan.name}-{count}"))
    return plans
