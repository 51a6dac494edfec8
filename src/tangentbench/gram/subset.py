"""Reading a matrix of some images from the matrix of more of them, where that one exists."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from tangentbench.errors import TileCorrupt, TilesMissing
from tangentbench.gram.matrix import Array, blocks_between
from tangentbench.gram.store import Gram, Kernel

PROBE = 2
"""Inputs a side that are computed to see whether the larger matrix holds the same kernel."""
TOLERANCE = 1e-5


def read_from(whole: Gram, otherwise: Kernel) -> Kernel:
    """A kernel that reads its values from `whole`, opened with its inputs, and computes what is not in there."""
    assert whole.x1 is not None and whole.x2 is not None
    row_of, column_of = _places(whole.x1), _places(whole.x2)

    def kernel(x1: Array, x2: Array | None) -> Array:
        rows, columns = _found(x1, row_of), _found(x1 if x2 is None else x2, column_of)
        if rows is None or columns is None:
            return otherwise(x1, x2)
        try:
            probe = crossings(whole, rows[:PROBE], columns[:PROBE])
            # tiles of older code are not taken over
            fresh = otherwise(x1[:PROBE], (x1 if x2 is None else x2)[:PROBE])
            if np.allclose(probe, fresh, rtol=TOLERANCE, atol=0):
                return crossings(whole, rows, columns)
        except (TilesMissing, TileCorrupt):
            pass
        return otherwise(x1, x2)

    return kernel


def crossings(matrix: Gram, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
    """The values at the crossings of some rows and columns, piece by piece, shape (len(rows), len(columns))."""
    values = np.empty((len(rows), len(columns)), matrix.dtype)
    for i in blocks_between(matrix.row_edges, int(rows.min()), int(rows.max()) + 1):
        inside = _within(rows, matrix.row_edges, i)
        for j in blocks_between(matrix.column_edges, int(columns.min()), int(columns.max()) + 1):
            across = _within(columns, matrix.column_edges, j)
            if not (inside.size and across.size):
                continue
            mirrored = matrix.symmetric and j > i
            piece = matrix.piece((j, i)).T if mirrored else matrix.piece((i, j))
            here = np.ix_(rows[inside] - matrix.row_edges[i], columns[across] - matrix.column_edges[j])
            values[np.ix_(inside, across)] = piece[here]
    return values


def _within(places: NDArray[np.intp], edges: tuple[int, ...], block: int) -> NDArray[np.intp]:
    return np.flatnonzero((places >= edges[block]) & (places < edges[block + 1]))


def _places(x: Array) -> dict[bytes, int]:
    return {_sum(one): place for place, one in enumerate(x)}


def _sum(one: Array) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(one).data.cast("B")).digest()


def _found(x: Array, places: dict[bytes, int]) -> NDArray[np.intp] | None:
    found = [places.get(_sum(one), -1) for one in x]
    return None if -1 in found else np.array(found, np.intp)
