"""What a Gram store remembers of the inputs it was made from: their shape, type and checksums, never the inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tangentbench.errors import StoreMismatch, UnfitArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Inputs:
    """The inputs of one side of a Gram matrix, cut into blocks; the cuts are the edges of the tiles.

    edges: 0 = e_0 < e_1 < ... < e_k = n, block b holds the inputs e_b .. e_{b+1};
    blocks: the SHA-256 of each block; sha256: that of all inputs, whatever the cuts.
    """

    edges: tuple[int, ...]
    blocks: tuple[str, ...]
    sha256: str
    item_shape: tuple[int, ...]
    dtype: str

    @property
    def count(self) -> int:
        return self.edges[-1]

    @classmethod
    def of(cls, x: Array, edges: tuple[int, ...]) -> Inputs:
        """Read `x` block by block, so that a mapped array is never in memory as a whole."""
        kind = f"{x.dtype.str} {x.shape[1:]}"
        whole = hashlib.sha256(f"{kind} {len(x)}".encode())
        blocks = []
        for first, last in pairwise(edges):
            block = np.ascontiguousarray(x[first:last])
            if block.dtype.kind == "f" and not np.isfinite(block).all():
                bad = first + int(np.argwhere(~np.isfinite(block.reshape(last - first, -1)).all(axis=1))[0, 0])
                raise UnfitArray(f"input {bad} holds a value that is not finite: clean the data first")
            content = block.data.cast("B")
            whole.update(content)
            part = hashlib.sha256(kind.encode())
            part.update(content)
            blocks.append(part.hexdigest())
        return cls(edges, tuple(blocks), whole.hexdigest(), tuple(x.shape[1:]), x.dtype.name)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Inputs:
        return cls(
            tuple(record["edges"]),
            tuple(record["blocks"]),
            record["sha256"],
            tuple(record["item_shape"]),
            record["dtype"],
        )


def as_inputs(x: ArrayLike, name: str) -> Array:
    """`x` as an array (n, ...) of real numbers with n at least 1 and at least one number an input."""
    array = np.asanyarray(x)
    if array.dtype.kind not in "fiub":
        raise UnfitArray(f"{name} has type {array.dtype}: give an array of real numbers")
    if array.ndim < 2 or array.size == 0:
        raise UnfitArray(f"{name} has shape {array.shape}: give (n, features) or (n, channels, height, width), n > 0")
    return array


def require_same_shape(folder: Path, name: str, x: Array, known: Inputs) -> None:
    if (len(x), tuple(x.shape[1:]), x.dtype.name) != (known.count, known.item_shape, known.dtype):
        there = f"{(known.count, *known.item_shape)} {known.dtype}"
        longer = len(x) > known.count and tuple(x.shape[1:]) == known.item_shape
        remedy = "extend the store, or choose another folder" if longer else "choose another folder"
        raise StoreMismatch(folder, f"{name} is {there} there, {x.shape} {x.dtype.name} here", remedy)


def require_same_blocks(folder: Path, name: str, x: Array, known: Inputs, blocks: Iterable[int]) -> None:
    """Compare some blocks, to name the first inputs that differ; the others are not read."""
    for block in blocks:
        first, last = known.edges[block], known.edges[block + 1]
        if Inputs.of(x[first:last], (0, last - first)).blocks[0] != known.blocks[block]:
            reason = f"the checksum of {name} differs from input {first} to {last - 1}"
            raise StoreMismatch(folder, reason, "choose another folder")


def require_same_inputs(folder: Path, name: str, x: Array, known: Inputs) -> None:
    require_same_shape(folder, name, x, known)
    require_same_blocks(folder, name, x, known, range(len(known.blocks)))
