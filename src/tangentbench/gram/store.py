"""The Gram store: a kernel matrix on disk in tiles, that survives anything and is shared by many.

    FOLDER/gram.json              the manifest: kernel settings, precision, shapes and checksums of the inputs
    FOLDER/tiles/00003-00001.npy  rows of block 3, columns of block 1; each file ends with its own checksum
    FOLDER/certificate.json       what is known of the finished matrix (certificate.py)

A tile appears whole or not at all, so a process may be killed at any moment and lose the tile it was at. Processes on
one or many machines that share the folder need no server: each takes a tile by a file lock, which the system lets go
of when its holder dies. Where the file system knows no locks, work may be done twice, never wrongly.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tangentbench.atomic import cannot_write, locked, read_json, write_json
from tangentbench.errors import ResultUnreadable, StoreMismatch, TangentbenchError, TilesMissing, UnfitArray
from tangentbench.gram import tile_file
from tangentbench.gram.grid import regular_edges, tile_name
from tangentbench.gram.identity import KernelLike, as_json, canonical, identity, is_known
from tangentbench.gram.inputs import Inputs, as_inputs, require_same_blocks, require_same_inputs, require_same_shape
from tangentbench.gram.limits import memory_allowed, require_disk, require_memory
from tangentbench.gram.matrix import Matrix
from tangentbench.progress import tqdm
from tangentbench.shapes import InputsLike

Array = NDArray[Any]
Kernel = Callable[[Array, Array | None], Array]
"""block(x1 (n1, ...), x2 (n2, ...) or None for x1 itself) -> values (n1, n2)."""

FORMAT = 1
DEFAULT_TILE = 512
PROBE = 2
"""Inputs a side of the entries that tell one kernel from another."""
PROBE_TOLERANCE = 1e-3
"""Relative difference up to which two backends may compute the same kernel."""


_log = logging.getLogger("tangentbench")


class Gram(Matrix):
    """A kernel matrix on disk, K[i, j] = k(x1_i, x2_j), shape (n1, n2); without x2 it is symmetric and half is kept.

    Example:
        gram = Gram.create("results/cntk", images, kernel={"name": "cntk", "depth": 6})
        gram.compute()                # again after a kill: goes on where it was
        top = gram.rows(0, 100)       # (100, n) without loading the rest
    """

    def __init__(self, folder: Path, manifest: dict[str, Any], x1: Array | None, x2: Array | None) -> None:
        """Use `Gram.create` or `Gram.open`."""
        self.folder, self.manifest = folder, manifest
        self.symmetric: bool = manifest["symmetric"]
        self.row_inputs = Inputs.from_json(manifest["rows"])
        self.column_inputs = self.row_inputs if self.symmetric else Inputs.from_json(manifest["columns"])
        self.x1, self.x2 = x1, x1 if self.symmetric else x2
        self._verified: set[tuple[int, int]] = set()
        self._inputs_checked = True

    @classmethod
    def create(
        cls,
        folder: Path | str,
        x1: InputsLike,
        x2: InputsLike | None = None,
        *,
        kernel: KernelLike,
        tile: int = DEFAULT_TILE,
        dtype: DTypeLike = np.float32,
        code: str = "",
    ) -> Gram:
        """A new store for x1 (n1, ...) against x2 (n2, ...), or the one in `folder` if it is just that one.

        kernel: settings that name a kernel of this package ({"name": "cntk", "depth": 6}; also ntk, myrtle, resnet50),
            the layers of a network, or any JSON values that describe a function of the caller's own. A store is only
            ever used with the kernel it was made with; what is left out counts as its default.
        tile: inputs a side of a tile; a tile is what a kill can cost, and what one job of a workflow computes.
        code: the fingerprint of the code behind the kernel, if it is known. Tiles of other code are computed anew.
        """
        folder = Path(folder)
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise UnfitArray(f"a Gram matrix cannot be kept in {np.dtype(dtype)}: choose float32 or float64")
        if tile < 1:
            raise UnfitArray(f"a tile of {tile} inputs per side is too small: choose 1 or more")
        rows, columns = as_inputs(x1, "x1"), None if x2 is None else as_inputs(x2, "x2")
        if columns is not None and columns.shape[1:] != rows.shape[1:]:
            raise UnfitArray(f"x1 holds inputs of shape {rows.shape[1:]}, x2 of {columns.shape[1:]}: make them equal")
        manifest = {
            "format": FORMAT,
            "symmetric": columns is None,
            "dtype": np.dtype(dtype).name,
            "tile": int(tile),
            "kernel": kernel_record(kernel),
            "code": code,
        }
        if manifest_path(folder).exists() and not _made_by(folder, code):
            _log.warning("the tiles in %s were made by other code: they are computed anew", folder)
            manifest_path(folder).unlink(missing_ok=True)
        if manifest_path(folder).exists():
            store = cls.open(folder, rows, columns)
            different = [key for key in manifest if store.manifest[key] != manifest[key]]
            if different:
                raise StoreMismatch(folder, differences(store.manifest, manifest), "choose another folder")
            return store
        manifest["rows"] = Inputs.of(rows, regular_edges(len(rows), tile)).as_json()
        if columns is not None:
            manifest["columns"] = Inputs.of(columns, regular_edges(len(columns), tile)).as_json()
        write_json(manifest_path(folder), manifest)
        return cls(folder, read_json(manifest_path(folder)), rows, columns)

    @classmethod
    def open(
        cls, folder: Path | str, x1: ArrayLike | None = None, x2: ArrayLike | None = None, *, check_all: bool = True
    ) -> Gram:
        """The store in `folder`; to compute tiles give the inputs too, they must be the ones it was made from.

        check_all: compare the checksums of all inputs now; without it each tile compares those it is computed from, and
            of mapped inputs nothing else is read.
        """
        folder = Path(folder)
        try:
            manifest = read_json(manifest_path(folder))
        except FileNotFoundError:
            raise TangentbenchError(f"no Gram store in {folder}: make it with Gram.create") from None
        if manifest.get("format") != FORMAT:
            raise ResultUnreadable(manifest_path(folder), f"its format is {manifest.get('format')}, not {FORMAT}")
        rows = None if x1 is None else as_inputs(x1, "x1")
        columns = None if x2 is None else as_inputs(x2, "x2")
        store = cls(folder, manifest, rows, columns)
        if store.symmetric and columns is not None:
            raise StoreMismatch(folder, "it is symmetric and x2 was given", "leave x2 out or choose another folder")
        for name, x, known in (("x1", rows, store.row_inputs), ("x2", columns, store.column_inputs)):
            if x is not None:
                (require_same_inputs if check_all else require_same_shape)(folder, name, x, known)
        store._inputs_checked = check_all
        return store

    @property
    def kernel(self) -> dict[str, Any]:
        """The kernel's settings."""
        settings: dict[str, Any] = self.manifest["kernel"]
        return settings

    @property
    def code(self) -> str:
        """The fingerprint of the code that computes the tiles; empty where nobody said."""
        return str(self.manifest.get("code", ""))

    @property
    def dtype(self) -> np.dtype[Any]:
        name: str = self.manifest["dtype"]
        return np.dtype(name)

    @property
    def row_edges(self) -> tuple[int, ...]:
        return self.row_inputs.edges

    @property
    def column_edges(self) -> tuple[int, ...]:
        return self.column_inputs.edges

    @property
    def identity(self) -> str:
        return tile_file.digest_of(
            canonical(self.kernel), self.code, self.dtype.name, self.row_inputs.sha256, self.column_inputs.sha256
        )

    def tile_path(self, key: tuple[int, int]) -> Path:
        """The file of a tile, the output of the job that computes it."""
        return self.folder / "tiles" / f"{tile_name(key)}.npy"

    def tile_shape(self, key: tuple[int, int]) -> tuple[int, int]:
        rows, columns = self.extent(key)
        return rows.stop - rows.start, columns.stop - columns.start

    def missing_tiles(self) -> list[tuple[int, int]]:
        """The tiles that are not on disk, or there for other inputs or settings."""
        return [key for key in self.keys if not self._is_finished(key)]

    def compute(
        self,
        kernel: Kernel | None = None,
        tiles: Iterable[tuple[int, int]] | None = None,
        *,
        memory_limit: float | None = None,
        progress: bool = True,
    ) -> None:
        """Compute the tiles that are missing (of `tiles`, by default of all) and return when all of them are there.

        kernel: by default the one that the store's settings name; a function of the caller's own must give, for the
            first inputs of a tile that is there, what that tile holds.
        Tiles on disk are checked against their checksums, and recomputed alone where they fail. Memory (bytes) counts
        the tile at hand and its inputs; what the kernel takes inside comes on top.
        """
        function = self._own_kernel() if kernel is None else self._same_kernel(kernel)
        wanted = self.keys if tiles is None else [self._known_key(key) for key in tiles]
        quiet = None if progress else True
        todo = [key for key in tqdm(wanted, desc="checking tiles", disable=quiet) if not self._is_intact(key)]
        if not todo:
            return
        self._require_inputs()
        self._require_room(todo, memory_limit)
        entries = {key: int(np.prod(self.tile_shape(key))) for key in todo}
        with tqdm(total=sum(entries.values()), unit="entry", unit_scale=True, desc="tiles", disable=quiet) as bar:
            taken_by_others = []
            for key in todo:
                if self._compute_tile(function, key, wait=False):
                    bar.update(entries[key])
                else:
                    taken_by_others.append(key)
            for key in taken_by_others:
                self._compute_tile(function, key, wait=True)
                bar.update(entries[key])

    def extend(self, x1: ArrayLike | None = None, x2: ArrayLike | None = None) -> Gram:
        """The store grown to x1 (n1', ...), x2 (n2', ...), which begin with the old inputs; old tiles stay.

        In a symmetric store x1 stands for both sides. New tiles begin at the old edge, so no old tile is touched.
        """
        if self.symmetric and x2 is not None:
            raise UnfitArray(f"{self.folder} is symmetric: extend it by x1 alone")
        manifest, inputs = dict(self.manifest), {"rows": self.x1, "columns": self.x2}
        for side, name, x, known in (("rows", "x1", x1, self.row_inputs), ("columns", "x2", x2, self.column_inputs)):
            if x is None:
                continue
            grown = inputs[side] = as_inputs(x, name)
            if len(grown) < known.count:
                raise UnfitArray(f"{name} holds {len(grown)} inputs, the store {known.count}: append to the old ones")
            require_same_inputs(self.folder, f"the beginning of {name}", grown[: known.count], known)
            if len(grown) > known.count:
                edges = known.edges[:-1] + regular_edges(len(grown), self.manifest["tile"], known.count)
                manifest[side] = Inputs.of(grown, edges).as_json()
        write_json(manifest_path(self.folder), manifest)
        return type(self)(self.folder, read_json(manifest_path(self.folder)), inputs["rows"], inputs["columns"])

    def piece(self, key: tuple[int, int]) -> Array:
        """A tile, mapped; its checksum is checked when it is first read."""
        path = self.tile_path(key)
        if key not in self._verified:
            if not self._is_finished(key):
                raise TilesMissing(self.folder, len(self.missing_tiles()), len(self.keys))
            tile_file.verify(path)
            self._verified.add(key)
        return tile_file.as_map(path, self.tile_shape(key), self.dtype)

    def as_memmap(self, path: Path | str) -> Array:
        """The whole matrix as one plain .npy file, written tile by tile and mapped, for programs that want that."""
        path = Path(path)
        require_disk(path.parent, float(np.prod(self.shape)) * self.dtype.itemsize)
        try:
            whole = np.lib.format.open_memmap(path, mode="w+", dtype=self.dtype, shape=self.shape)
        except OSError as error:
            raise cannot_write(path, error) from error
        for rows, columns, values in self.blocks():
            whole[rows, columns] = values
            if self.symmetric:
                whole[columns, rows] = values.T
        whole.flush()
        return whole

    def _own_kernel(self) -> Kernel:
        from tangentbench.gram.by_settings import named_kernel

        return named_kernel(self.kernel)

    def _same_kernel(self, kernel: Kernel) -> Kernel:
        """`kernel`, after a look at whether it is the one that computed what is there.

        A label can be wrong, so values are compared: some entries of the first tile that is found.
        """
        named = getattr(kernel, "identity", None)
        if named is not None:
            if named != self.kernel:
                raise StoreMismatch(self.folder, differences(self.kernel, named), "choose another folder")
            return kernel
        there = next((key for key in self.keys if self._is_finished(key)), None)
        if there is None or self.x1 is None or self.x2 is None or not tile_file.is_intact(self.tile_path(there)):
            return kernel
        rows, columns = self.extent(there)
        stored = self.piece(there)[:PROBE, :PROBE].astype(np.float64)
        x1, x2 = (np.ascontiguousarray(x[side][:PROBE]) for x, side in ((self.x1, rows), (self.x2, columns)))
        found = np.asarray(kernel(x1, x2), np.float64)
        if found.shape == stored.shape and np.abs(found - stored).max() > PROBE_TOLERANCE * np.abs(stored).max():
            reason = "this kernel gives other values than its tiles hold"
            raise StoreMismatch(
                self.folder, reason, "compute with the kernel it was made with, or choose another folder"
            )
        return kernel

    def _known_key(self, key: tuple[int, int]) -> tuple[int, int]:
        i, j = key
        if not (0 <= i < len(self.row_edges) - 1 and 0 <= j < len(self.column_edges) - 1):
            raise UnfitArray(f"{self.folder} has no tile {i}, {j}")
        return (j, i) if self.symmetric and j > i else (i, j)

    def _tile_identity(self, key: tuple[int, int]) -> str:
        sums = self.row_inputs.blocks[key[0]], self.column_inputs.blocks[key[1]]
        return tile_file.digest_of(canonical(self.kernel), self.code, self.dtype.name, *sums)

    def _is_finished(self, key: tuple[int, int]) -> bool:
        path, shape = self.tile_path(key), self.tile_shape(key)
        return tile_file.is_finished(path, shape, self.dtype, self._tile_identity(key))

    def _is_intact(self, key: tuple[int, int]) -> bool:
        """Whether the tile is there and its bytes are right; a damaged file is removed with a warning."""
        if not self._is_finished(key):
            return False
        if key not in self._verified:
            path = self.tile_path(key)
            if not tile_file.is_intact(path):
                warnings.warn(f"{path} does not have its checksum any more and is recomputed", stacklevel=3)
                path.unlink(missing_ok=True)
                return False
            self._verified.add(key)
        return True

    def _require_inputs(self) -> None:
        if self.x1 is None or self.x2 is None:
            sides = "x1" if self.symmetric else "x1 and x2"
            raise TangentbenchError(f"computing tiles of {self.folder} needs the inputs: open it with {sides}")

    def _require_room(self, todo: list[tuple[int, int]], memory_limit: float | None) -> None:
        assert self.x1 is not None
        input_bytes = int(np.prod(self.x1.shape[1:])) * self.x1.dtype.itemsize
        rows, columns = (max(sides) for sides in zip(*map(self.tile_shape, todo), strict=True))
        needed = tile_memory(rows, columns, input_bytes, self.dtype.itemsize)
        fitting = rows
        while fitting > 1 and tile_memory(fitting, fitting, input_bytes, self.dtype.itemsize) > memory_allowed(
            memory_limit
        ):
            fitting //= 2
        require_memory(
            f"a tile of {rows} by {columns}", needed, memory_limit, f"create the store with tile={fitting} or smaller"
        )
        require_disk(self.folder, sum(tile_file.file_bytes(self.tile_shape(key), self.dtype) for key in todo))

    def _compute_tile(self, kernel: Kernel, key: tuple[int, int], wait: bool) -> bool:
        """Compute one tile under its lock; False if another process is at it and we do not wait."""
        with locked(self.tile_path(key).with_suffix(".lock"), wait) as mine:
            if not mine:
                return False
            if not self._is_finished(key):
                tile_file.write(self.tile_path(key), self._values(kernel, key), self._tile_identity(key))
            self._verified.add(key)
            return True

    def _values(self, kernel: Kernel, key: tuple[int, int]) -> Array:
        assert self.x1 is not None and self.x2 is not None
        rows, columns = self.extent(key)
        if not self._inputs_checked:
            require_same_blocks(self.folder, "x1", self.x1, self.row_inputs, key[:1])
            require_same_blocks(self.folder, "x1" if self.symmetric else "x2", self.x2, self.column_inputs, key[1:])
        on_diagonal = self.symmetric and key[0] == key[1]
        x1 = np.ascontiguousarray(self.x1[rows])
        values = np.asarray(kernel(x1, None if on_diagonal else np.ascontiguousarray(self.x2[columns])))
        if values.shape != self.tile_shape(key):
            raise UnfitArray(f"the kernel gave shape {values.shape} for a tile of {self.tile_shape(key)}")
        values = values.astype(self.dtype, copy=False)
        if not np.isfinite(values).all():
            i, j = np.argwhere(~np.isfinite(values))[0]
            raise UnfitArray(
                f"the kernel gave {values[i, j]} for inputs {rows.start + i} and {columns.start + j}: look at these two"
            )
        return mirrored(values) if on_diagonal else values


def tile_memory(rows: int, columns: int, input_bytes: int, itemsize: int) -> float:
    """Bytes a tile takes while it is made: the kernel's answer (at most float64), what is kept of it, its inputs."""
    return rows * columns * (8 + 2 * itemsize) + (rows + columns) * input_bytes


def _made_by(folder: Path, code: str) -> bool:
    """Whether the store in `folder` was made by this code; one that cannot be read says so when it is opened."""
    try:
        manifest = read_json(manifest_path(folder))
    except ResultUnreadable:
        return True
    return not isinstance(manifest, dict) or str(manifest.get("code", "")) == code


def mirrored(values: Array) -> Array:
    """The lower half, and above the diagonal its mirror image."""
    lower = np.tril(values)
    lower += np.tril(values, -1).T
    return lower


def manifest_path(folder: Path) -> Path:
    return folder / "gram.json"


def kernel_record(kernel: KernelLike) -> dict[str, Any]:
    """A kernel of this package in full; of others, what the caller says."""
    if isinstance(kernel, Mapping) and not is_known(kernel):
        return as_json(kernel)
    return identity(kernel)


def differences(known: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """ "depth: 3 there, 4 asked" for every setting that differs."""
    known, asked = ({**side, **side.get("kernel", {})} for side in (known, asked))
    keys = [key for key in {**known, **asked} if key not in ("kernel", "rows", "columns")]
    return ", ".join(
        f"{key}: {known.get(key, 'nothing')} there, {asked.get(key, 'nothing')} asked"
        for key in keys
        if known.get(key) != asked.get(key)
    )
