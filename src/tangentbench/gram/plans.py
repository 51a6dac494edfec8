"""A Gram matrix as data: which kernel on which images, and the tiles it is cut into. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tangentbench.datasets.choice import ImageChoice
from tangentbench.gram.grid import piece_keys, regular_edges, tile_name
from tangentbench.gram.identity import key

TRAIN, TEST = "train", "test"
"""Training images against themselves (symmetric, half is kept), and test images against them."""


@dataclass(frozen=True)
class KernelPlan:
    """A kernel on some images.

    name: a name for the pair of matrices, unique in what plans it; a piece of a path.
    group: what `tile_jobs` of the catalogue calls it, a column of a table.
    kernel: its settings, as gram/by_settings.py reads them.
    tile: images per side of a tile.
    """

    name: str
    group: str
    images: ImageChoice
    kernel: Mapping[str, Any]
    tile: int

    @property
    def matrices(self) -> tuple[str, ...]:
        return (TRAIN, TEST) if self.images.test else (TRAIN,)

    def shape(self, matrix: str) -> tuple[int, int]:
        return (self.images.train if matrix == TRAIN else self.images.test, self.images.train)

    @property
    def entries(self) -> float:
        """Entries that are computed: half of the symmetric matrix, all of the other."""
        return self.images.train**2 / 2 + self.images.train * self.images.test


@dataclass(frozen=True)
class GramPlan:
    """A kernel plan and where its files go: results/SCALE/grams/INPUTS/KEY/{train,test}.

    The place says what the matrices are, images and kernel, and not who asked: plans of several owners that mean the
    same matrices share them. threads: of the jobs, of which there is one per tile.
    """

    owner: str
    dataset: str
    threads: int
    plan: KernelPlan

    @property
    def tile(self) -> int:
        return self.plan.tile

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def inputs(self) -> str:
        """The folder of the images; plans that differ in nothing but the kernel share it."""
        return f"{self.dataset}-{self.plan.images.slug}"

    @property
    def key(self) -> str:
        """The folder of the kernel among those of the same images."""
        return key(self.plan.kernel)

    def tiles(self, matrix: str) -> list[str]:
        rows, columns = (len(regular_edges(count, self.tile)) - 1 for count in self.plan.shape(matrix))
        return [tile_name(key) for key in piece_keys(rows, columns, matrix == TRAIN)]
