"""Cholesky factorisation of a matrix that is read piece by piece, panel by panel, in memory or on disk.

The factor L of K + ridge I is made from left to right in panels of some columns:

    L[j:, j] = (K[j:, j] - sum over k < j of L[j:, k] L[j, k]^T) L[j, j]^-T

Every panel is written once and holds only the rows from its own diagonal down, so the factor takes n^2 / 2 numbers and
the matrix itself is never copied. On disk a finished panel is a checkpoint: a killed factorisation goes on from there.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import get_blas_funcs
from scipy.linalg.lapack import dpotrf, spotrf

from tangentbench.errors import NotPositiveDefinite
from tangentbench.gram import tile_file
from tangentbench.gram.grid import regular_edges
from tangentbench.gram.limits import memory_allowed, require_disk, require_memory
from tangentbench.gram.matrix import Float64, Matrix
from tangentbench.progress import tqdm

Array = NDArray[Any]

PANEL = 768
"""Columns of a panel: wide enough for the matrix products to run at full speed, narrow enough to waste little."""

NARROWEST_PANEL = 64
CHUNK_ROWS = 4096
"""Rows of a panel on disk that are in memory at a time."""


PIVOT_NOISE = 10
"""A pivot below this many roundings of the largest diagonal entry is taken for zero."""


class Panels(Protocol):
    """Where the panels of a factor are kept."""

    def holds(self, panel: int) -> bool: ...

    def put(self, panel: int, values: Array) -> None: ...

    def rows(self, panel: int, first: int, last: int) -> Array:
        """Rows first..last of the matrix (so at least the panel's own first row), shape (last - first, width)."""


class PanelsInMemory:
    def __init__(self, edges: tuple[int, ...]) -> None:
        self.edges = edges
        self.values: dict[int, Array] = {}

    def holds(self, panel: int) -> bool:
        return panel in self.values

    def put(self, panel: int, values: Array) -> None:
        self.values[panel] = values

    def rows(self, panel: int, first: int, last: int) -> Array:
        start = self.edges[panel]
        return self.values[panel][first - start : last - start]


class PanelsOnDisk:
    def __init__(self, edges: tuple[int, ...], dtype: np.dtype[Any], folder: Path, identity: str) -> None:
        self.edges, self.dtype, self.folder, self.identity = edges, dtype, folder, identity
        self._verified: set[int] = set()

    def path(self, panel: int) -> Path:
        return self.folder / f"panel-{panel:05d}.npy"

    def shape(self, panel: int) -> tuple[int, int]:
        return self.edges[-1] - self.edges[panel], self.edges[panel + 1] - self.edges[panel]

    def holds(self, panel: int) -> bool:
        path = self.path(panel)
        if panel not in self._verified and tile_file.is_finished(
            path, self.shape(panel), self.dtype, self._panel_identity(panel)
        ):
            if tile_file.is_intact(path):
                self._verified.add(panel)
            else:
                path.unlink(missing_ok=True)
        return panel in self._verified

    def put(self, panel: int, values: Array) -> None:
        tile_file.write(self.path(panel), values, self._panel_identity(panel))
        self._verified.add(panel)

    def rows(self, panel: int, first: int, last: int) -> Array:
        start = self.edges[panel]
        return tile_file.read_rows(self.path(panel), self.shape(panel), self.dtype, first - start, last - start)

    def bytes_missing(self) -> int:
        count = len(self.edges) - 1
        return sum(tile_file.file_bytes(self.shape(k), self.dtype) for k in range(count) if not self.holds(k))

    def _panel_identity(self, panel: int) -> str:
        return tile_file.digest_of(self.identity, str(panel))


class Cholesky:
    """The factor L (n, n) of K + ridge I = L L^T, in panels.

    smallest_pivot: the smallest L_ii^2, which tells how near to singular the matrix is.
    """

    def __init__(self, edges: tuple[int, ...], dtype: np.dtype[Any], panels: Panels) -> None:
        self.edges, self.dtype, self.panels = edges, dtype, panels
        self.smallest_pivot = np.inf
        self._gemm, self._trsm, self._syrk = get_blas_funcs(("gemm", "trsm", "syrk"), dtype=dtype)
        self._potrf = {"f": spotrf, "d": dpotrf}[dtype.char]

    @property
    def count(self) -> int:
        return self.edges[-1]

    def factorise(self, matrix: Matrix, ridge: float, progress: bool) -> None:
        noise = PIVOT_NOISE * float(np.finfo(self.dtype).eps) * (float(matrix.diagonal().max()) + ridge)
        cost = [(self.count - start) * (start + 1) for start in self.edges[:-1]]
        with tqdm(total=sum(cost), desc="Cholesky", disable=None if progress else True, unit_scale=True) as bar:
            for panel, (first, last) in enumerate(pairwise(self.edges)):
                if self.panels.holds(panel):
                    diagonal = self.panels.rows(panel, first, last)
                else:
                    values = self._panel(matrix, ridge, panel)
                    diagonal = values[: last - first].copy()
                    self.panels.put(panel, values)
                self._note_pivots(np.diagonal(diagonal).astype(np.float64) ** 2, first, noise)
                bar.update(cost[panel])

    def _note_pivots(self, pivots: Float64, first: int, noise: float) -> None:
        worst = int(pivots.argmin())
        self.smallest_pivot = min(self.smallest_pivot, float(pivots[worst]))
        if pivots[worst] <= noise:
            raise self._singular(float(pivots[worst]), first + worst)

    def _singular(self, pivot: float, row: int) -> NotPositiveDefinite:
        what = f"the Gram matrix of {self.count} inputs in {self.dtype.name}"
        return NotPositiveDefinite(what, pivot, f"the smallest pivot, at input {row},")

    def _panel(self, matrix: Matrix, ridge: float, panel: int) -> Array:
        """L[first:, first:last]; all products run on transposes, which are what BLAS calls columns first."""
        first, last = self.edges[panel], self.edges[panel + 1]
        width = last - first
        values = matrix.block(first, self.count, first, last).astype(self.dtype, order="C", copy=False)
        values[np.arange(width), np.arange(width)] += self.dtype.type(ridge)
        for done in range(panel):
            left = self.panels.rows(done, first, last)
            self._syrk(-1.0, left.T, 1.0, values[:width].T, trans=1, lower=0, overwrite_c=1)
            for start in range(last, self.count, CHUNK_ROWS):
                end = min(start + CHUNK_ROWS, self.count)
                below = self.panels.rows(done, start, end)
                target = values[start - first : end - first]
                self._gemm(-1.0, left.T, below.T, 1.0, target.T, trans_a=1, overwrite_c=1)
        self._factorise_diagonal(values[:width], first)
        if last < self.count:
            self._trsm(1.0, values[:width].T, values[width:].T, lower=0, trans_a=1, overwrite_b=1)
        return values

    def _factorise_diagonal(self, block: Array, first: int) -> None:
        before = block.copy()
        _, failed = self._potrf(block.T, lower=0, clean=1, overwrite_a=1)
        if failed:
            raise self._singular(self._failing_pivot(before, failed - 1), first + failed - 1)

    def _failing_pivot(self, block: Array, row: int) -> float:
        """The pivot at which LAPACK gave up, from the rows above it."""
        factor = np.linalg.cholesky(block[:row, :row].astype(np.float64)) if row else np.zeros((0, 0))
        solved = np.linalg.solve(factor, block[row, :row].astype(np.float64))
        return float(block[row, row]) - float(solved @ solved)

    def solve(self, targets: Array) -> Float64:
        """(L L^T)^-1 targets for targets (n,) or (n, m), computed in the factor's precision."""
        columns = np.array(targets, self.dtype).reshape(self.count, -1)
        last_panel = len(self.edges) - 2
        for panel in range(last_panel + 1):
            self._substitute(panel, columns, forward=True)
        for panel in range(last_panel, -1, -1):
            self._substitute(panel, columns, forward=False)
        return columns.reshape(np.shape(targets)).astype(np.float64)

    def _substitute(self, panel: int, columns: Array, forward: bool) -> None:
        first, last = self.edges[panel], self.edges[panel + 1]
        diagonal = self.panels.rows(panel, first, last)
        if forward:
            columns[first:last] = self._trsm(1.0, diagonal.T, columns[first:last], lower=0, trans_a=1)
        for start in range(last, self.count, CHUNK_ROWS):
            end = min(start + CHUNK_ROWS, self.count)
            below = self.panels.rows(panel, start, end)
            if forward:
                columns[start:end] -= below @ columns[first:last]
            else:
                columns[first:last] -= below.T @ columns[start:end]
        if not forward:
            columns[first:last] = self._trsm(1.0, diagonal.T, columns[first:last], lower=0)


def factor_memory(count: int, dtype: DTypeLike, panel: int) -> tuple[float, float]:
    """Bytes (beside the matrix) of a factor in memory, and of one on disk while it is made."""
    itemsize = np.dtype(dtype).itemsize
    work = itemsize * panel * (2 * count + 3 * panel + min(CHUNK_ROWS, count))
    return itemsize * count * (count + panel) / 2 + work, work


def factorise(
    matrix: Matrix,
    ridge: float = 0.0,
    *,
    dtype: DTypeLike = np.float64,
    scratch: Path | str | None = None,
    memory_limit: float | None = None,
    panel: int | None = None,
    progress: bool = True,
) -> Cholesky:
    """The Cholesky factor of K + ridge I for a symmetric matrix K (n, n).

    scratch: a folder for the panels; there a killed factorisation is taken up again and a finished one is found.
    Without it the factor (n^2 / 2 numbers) is kept in memory. panel: columns of a panel.
    """
    kind, count = np.dtype(dtype), matrix.shape[0]
    width = panel or fitting_panel(count, kind, memory_limit, on_disk=scratch is not None)
    edges = regular_edges(count, width)
    in_memory, on_disk = factor_memory(count, kind, width)
    what = f"the Cholesky factor of {count} inputs in {kind.name}"
    if scratch is None:
        require_memory(what, in_memory, memory_limit, "name a scratch folder for it, or use the conjugate gradient")
        panels: Panels = PanelsInMemory(edges)
    else:
        require_memory(what, on_disk, memory_limit, "allow more, or use the conjugate gradient")
        identity = tile_file.digest_of(matrix.identity, kind.name, repr(float(ridge)), str(width))
        panels = PanelsOnDisk(edges, kind, Path(scratch) / identity[:16], identity)
        require_disk(Path(scratch), panels.bytes_missing())
    factor = Cholesky(edges, kind, panels)
    factor.factorise(matrix, ridge, progress)
    return factor


def fitting_panel(count: int, dtype: DTypeLike, memory_limit: float | None, on_disk: bool) -> int:
    """The widest panel, at most PANEL, whose work space fits; a small matrix is one panel."""
    width = min(PANEL, count)
    while width > NARROWEST_PANEL and factor_memory(count, dtype, width)[on_disk] > memory_allowed(memory_limit):
        width //= 2
    return width
