"""A matrix that is read piece by piece: what the solvers ask of it, tiled or in memory."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tangentbench.errors import UnfitArray
from tangentbench.gram.grid import piece_keys

Array = NDArray[Any]
Float64 = NDArray[np.float64]

SYMMETRY_TOLERANCE = 1e-5
"""Largest |K - K^T| over max |K| that still passes for rounding in float32."""


class Matrix(ABC):
    """A matrix (n1, n2) as a grid of pieces; a symmetric one (n2 = n1) keeps the pieces on and below the diagonal."""

    symmetric: bool

    @property
    @abstractmethod
    def row_edges(self) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def column_edges(self) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]: ...

    @property
    @abstractmethod
    def identity(self) -> str:
        """64 hexadecimal digits that change with the kernel's settings, the data and the precision."""

    @abstractmethod
    def piece(self, key: tuple[int, int]) -> Array:
        """The values of one piece of `keys`; not to be written to."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.row_edges[-1], self.column_edges[-1]

    @property
    def keys(self) -> list[tuple[int, int]]:
        """(row block, column block) of every piece that is kept, row by row."""
        return piece_keys(len(self.row_edges) - 1, len(self.column_edges) - 1, self.symmetric)

    def extent(self, key: tuple[int, int]) -> tuple[slice, slice]:
        """The rows and columns a piece covers."""
        rows, columns = self.row_edges, self.column_edges
        return slice(rows[key[0]], rows[key[0] + 1]), slice(columns[key[1]], columns[key[1] + 1])

    def blocks(self) -> Iterator[tuple[slice, slice, Array]]:
        """Every piece that is kept with the rows and columns it covers."""
        for key in self.keys:
            yield *self.extent(key), self.piece(key)

    def block(self, row: int, row_end: int, column: int, column_end: int) -> Array:
        """The values K[row:row_end, column:column_end], shape (row_end - row, column_end - column)."""
        values = np.empty((row_end - row, column_end - column), self.dtype)
        for i in blocks_between(self.row_edges, row, row_end):
            for j in blocks_between(self.column_edges, column, column_end):
                mirrored = self.symmetric and j > i
                rows, columns = self.extent((i, j))
                r0, r1 = max(rows.start, row), min(rows.stop, row_end)
                c0, c1 = max(columns.start, column), min(columns.stop, column_end)
                piece = self.piece((j, i)).T if mirrored else self.piece((i, j))
                values[r0 - row : r1 - row, c0 - column : c1 - column] = piece[
                    r0 - rows.start : r1 - rows.start, c0 - columns.start : c1 - columns.start
                ]
        return values

    def rows(self, first: int, last: int) -> Array:
        """The rows first..last, shape (last - first, n2)."""
        return self.block(first, last, 0, self.shape[1])

    def to_array(self) -> Array:
        """The whole matrix in memory."""
        return self.rows(0, self.shape[0])

    def entries(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
        """The values at the crossings of some rows and columns, shape (len(rows), len(columns))."""
        values = np.empty((len(rows), len(columns)), self.dtype)
        for a, i in enumerate(rows):
            for b, j in enumerate(columns):
                values[a, b] = self.block(int(i), int(i) + 1, int(j), int(j) + 1)[0, 0]
        return values

    def diagonal(self) -> Float64:
        if self.shape[0] != self.shape[1]:
            raise UnfitArray(f"a matrix of shape {self.shape} has no diagonal to speak of")
        if not self.symmetric:
            return np.array([self.block(i, i + 1, i, i + 1)[0, 0] for i in range(self.shape[0])], np.float64)
        return np.concatenate([np.diagonal(self.piece((i, i))) for i in range(len(self.row_edges) - 1)]).astype(float)

    def matmul(self, v: Array) -> Float64:
        """K v in float64 for v (n2,) or (n2, m), reading every kept piece once."""
        v = np.asarray(v, np.float64)
        product = np.zeros((self.shape[0], *v.shape[1:]))
        for rows, columns, values in self.blocks():
            piece = np.asarray(values, np.float64)
            product[rows] += piece @ v[columns]
            if self.symmetric and rows.start != columns.start:
                product[columns] += piece.T @ v[rows]
        return product


class DenseMatrix(Matrix):
    """An array in memory, or one that numpy maps from a file, taken as a matrix of pieces of some rows."""

    PIECE_ROWS = 512

    def __init__(self, values: ArrayLike, symmetric: bool) -> None:
        self.values = np.asarray(values)
        self.symmetric = symmetric
        if self.values.ndim != 2 or self.values.dtype.kind != "f" or self.values.size == 0:
            raise UnfitArray(
                f"a Gram matrix of shape {self.values.shape} and type {self.values.dtype} cannot be used: "
                "give a two-dimensional array of floating-point numbers"
            )
        self._edges = (*range(0, len(self.values), self.PIECE_ROWS), len(self.values))
        self._check()

    def _check(self) -> None:
        if self.symmetric and self.values.shape[0] != self.values.shape[1]:
            raise UnfitArray(f"a training Gram matrix must be square, this one has shape {self.values.shape}")
        largest, asymmetry = 0.0, 0.0
        for first, last in pairwise(self._edges):
            strip = self.values[first:last]
            if not np.isfinite(strip).all():
                raise UnfitArray(f"the Gram matrix has values that are not finite in rows {first} to {last - 1}")
            largest = max(largest, float(np.abs(strip).max()))
            if self.symmetric:
                asymmetry = max(asymmetry, float(np.abs(strip - self.values[:, first:last].T).max()))
        if asymmetry > SYMMETRY_TOLERANCE * largest:
            raise UnfitArray(f"the training Gram matrix is not symmetric: |K - K^T| reaches {asymmetry:.3g}")

    @property
    def row_edges(self) -> tuple[int, ...]:
        return self._edges

    @property
    def column_edges(self) -> tuple[int, ...]:
        return self._edges if self.symmetric else (0, self.values.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    @property
    def identity(self) -> str:
        digest = hashlib.sha256(f"{self.dtype.str} {self.shape}".encode())
        for first, last in pairwise(self._edges):
            digest.update(np.ascontiguousarray(self.values[first:last]).data.cast("B"))
        return digest.hexdigest()

    def piece(self, key: tuple[int, int]) -> Array:
        rows, columns = self.extent(key)
        return self.values[rows, columns]

    def block(self, row: int, row_end: int, column: int, column_end: int) -> Array:
        return self.values[row:row_end, column:column_end].copy()


def blocks_between(edges: tuple[int, ...], first: int, last: int) -> range:
    """The blocks that hold some of first..last."""
    if not 0 <= first <= last <= edges[-1]:
        raise UnfitArray(f"{first} to {last} reaches outside a matrix with {edges[-1]} there")
    if first == last:
        return range(0)
    return range(int(np.searchsorted(edges, first, side="right")) - 1, int(np.searchsorted(edges, last, side="left")))
