"""The exact kernels of Tables 1 and 2 with the papers' two architectures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tangentbench.kernels.architecture import Pooling
from tangentbench.kernels.cntk import cntk
from tangentbench.kernels.tiles import Array, Kernel

TILES: dict[str, int] = {"flatten": 512, "gap": 128}
"""Inputs a side of a tile: what a kill costs is a few seconds of a flatten kernel, a minute or so of a pooled one."""


@dataclass(frozen=True)
class ExactKernel:
    """The CNTK of sections 4.1 (`flatten`) and 4.2 (`gap`)."""

    pooling: Pooling
    depth: int
    filter_size: int
    train_first_last: bool
    threads: int

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "name": "cntk",
            "pooling": self.pooling,
            "depth": self.depth,
            "filter": self.filter_size,
            "train_first_last": self.train_first_last,
        }

    @property
    def tile(self) -> int:
        return TILES[self.pooling]

    def kernel(self) -> Kernel:
        def block(x1: Array, x2: Array | None) -> Array:
            return cntk(
                x1,
                x2,
                depth=self.depth,
                pooling=self.pooling,
                train_first_last=self.train_first_last,
                filter=self.filter_size,
                threads=self.threads,
                progress=False,
            )

        return block
