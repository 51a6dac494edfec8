"""The exact kernels of Tables 1 and 2 as plans: which images, which kernel. Studies compute them, the cost model prices
them and the workflow cuts them into tiles; all three read the artifact's settings here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

from tangentbench.datasets.choice import ImageChoice
from tangentbench.gram.plans import KernelPlan
from tangentbench.studies.cntk.cells import parse_cells
from tangentbench.studies.registry import gram_plans

Pooling = Literal["flatten", "gap"]

KERNEL_COLUMNS: dict[str, Pooling] = {
    "cntk_v": "flatten",
    "cntk_v_2k": "flatten",
    "cntk_gap": "gap",
    "cntk_gap_2k": "gap",
}
NETWORK_COLUMNS: dict[str, Pooling] = {"cnn_v": "flatten", "cnn_gap": "gap"}
FEATURE_COLUMNS: dict[str, Pooling] = {"rf_v": "flatten", "rf_gap": "gap"}
POOLINGS = {**KERNEL_COLUMNS, **NETWORK_COLUMNS, **FEATURE_COLUMNS}
TABLE1 = (*NETWORK_COLUMNS, *KERNEL_COLUMNS)
TABLE2 = (*FEATURE_COLUMNS, "cntk_v", "cntk_gap")
SIZES: dict[Pooling, str] = {"flatten": "vanilla", "gap": "gap"}
"""What Table 2's numbers of images are called in the catalogue."""
TILES: dict[Pooling, int] = {"flatten": 512, "gap": 128}
"""Images a side of a tile inside one job; a kill costs seconds of a flatten kernel, a minute of a pooled one."""


@dataclass(frozen=True)
class Convolutional:
    """What all convolutional kernels and networks of a table share.

    *_trains_first_and_last: section 4.1 trains all layers of the vanilla kernel, section 4.2 fixes the first and last.
    """

    filter_size: int
    image_side: int
    pixels: str
    subset: str
    vanilla_trains_first_and_last: bool
    gap_trains_first_and_last: bool = False

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """What of an artifact's settings belongs here."""
        return cls(**{one.name: settings[one.name] for one in fields(cls) if one.name in settings})

    def trains_first_last(self, pooling: Pooling) -> bool:
        return self.vanilla_trains_first_and_last if pooling == "flatten" else self.gap_trains_first_and_last

    def images(self, train: int, test: int, subset_number: int = 0) -> ImageChoice:
        return ImageChoice(train, test, self.image_side, self.pixels, self.subset, subset_number)

    def plan(self, column: str, depth: int, images: ImageChoice) -> KernelPlan:
        kernel = {
            "name": "cntk",
            "pooling": POOLINGS[column],
            "depth": depth,
            "filter": self.filter_size,
            "train_first_last": self.trains_first_last(POOLINGS[column]),
        }
        return KernelPlan(f"{column}-depth{depth}-subset{images.subset_number}", column, images, kernel)


@gram_plans("cntk_table1")
def table1_plans(
    *,
    cells: Sequence[str],
    train_images: Mapping[str, int],
    test_images: Mapping[str, int],
    subsets: Mapping[str, int],
    **settings: Any,
) -> list[KernelPlan]:
    common = Convolutional.of(settings)
    return [
        common.plan(column, depth, common.images(train_images[column], test_images[column], number))
        for column, depth in parse_cells(cells, TABLE1)
        if column in KERNEL_COLUMNS
        for number in range(subsets.get(column, 1))
    ]


@gram_plans("cntk_vanilla_full")
def vanilla_plans(*, depths: Sequence[int], train_images: int, test_images: int, **settings: Any) -> list[KernelPlan]:
    common = Convolutional.of(settings)
    return [common.plan("cntk_v", depth, common.images(train_images, test_images)) for depth in depths]


@gram_plans("cntk_table2")
def table2_plans(
    *,
    cells: Sequence[str],
    train_images: Mapping[str, Mapping[str, int]],
    test_images: Mapping[str, int],
    **settings: Any,
) -> list[KernelPlan]:
    """Equal numbers of images are planned once."""
    common = Convolutional.of(settings)
    plans = []
    for column, depth in parse_cells(cells, TABLE2):
        if column in KERNEL_COLUMNS:
            kind = SIZES[POOLINGS[column]]
            for count in sorted(set(train_images[kind].values())):
                plan = common.plan(column, depth, common.images(count, test_images[kind]))
                plans.append(replace(plan, name=f"{plan.name}-{count}"))
    return plans
