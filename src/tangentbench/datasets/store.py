"""A data set on disk: one .npz without pickle, and a JSON of provenance beside it."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tangentbench.atomic import read_json, write_json, written_whole
from tangentbench.datasets.dataset import ARRAYS, Dataset
from tangentbench.errors import DataCorrupt, DataMissing, ResultUnreadable

EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold; a real one would change the bytes at every run
LARGEST_BYTE = np.float32(255)
ROWS = 4096  # examples converted at a time, so that no second copy of a large set is held


def save_dataset(dataset: Dataset, npz_path: Path | str, json_path: Path | str) -> None:
    """Write the arrays and their provenance; the same content gives the same bytes.

    Inputs that are all k/255 are stored as the bytes k, a quarter of the size, and come back bit for bit. Where one of
    the two cannot be written, no arrays appear.
    """
    stored = {name: as_stored(name, getattr(dataset, name)) for name in ARRAYS}
    provenance = {
        **dataset.provenance,
        "name": dataset.name,
        "classes": list(dataset.classes),
        "shapes": {name: list(array.shape) for name, array in stored.items()},
        "class_counts": dataset.class_counts(),
        "arrays": {name: {"dtype": str(array.dtype), "sha256": array_sum(array)} for name, array in stored.items()},
    }
    with written_whole(npz_path) as arrays_file:
        with arrays_file.open("wb") as stream:
            write_npz(stream, stored)
        write_json(json_path, provenance)


def load_dataset(path: Path | str) -> Dataset:
    """Read a data set that `save_dataset` wrote, with its provenance from the .json beside it.

    Every array is checked against the SHA-256 in the provenance.
    """
    path = Path(path)
    provenance = read_provenance(path)
    arrays = read_npz(path)
    for name, array in arrays.items():
        expected, actual = provenance["arrays"][name]["sha256"], array_sum(array)
        if actual != expected:
            raise DataCorrupt(
                f"{path} has changed since it was written ({name} has SHA-256 {actual}, its provenance says "
                f"{expected}): delete it and run again, only it will be rebuilt"
            )
    try:
        return Dataset(
            name=provenance["name"],
            classes=tuple(provenance["classes"]),
            provenance=provenance,
            **{name: unpacked(array) if name.startswith("x_") else array for name, array in arrays.items()},
        )
    except ValueError as error:
        raise ResultUnreadable(path, str(error)) from error


def read_provenance(path: Path) -> dict[str, Any]:
    file = path.with_suffix(".json")
    for needed in (path, file):
        if not needed.is_file():
            raise DataMissing(f"{needed} is missing: build the data set again with `snakemake --cores 1 {path}`")
    try:
        provenance = read_json(file)
        complete = all(key in provenance for key in ("name", "classes")) and set(provenance["arrays"]) == set(ARRAYS)
        complete = complete and all("sha256" in provenance["arrays"][name] for name in ARRAYS)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultUnreadable(file, str(error)) from error
    if not complete:
        raise ResultUnreadable(file, "the provenance of a data set is not complete there")
    return dict(provenance)


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in ARRAYS}
    except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError) as error:
        raise ResultUnreadable(path, str(error).splitlines()[0] if str(error) else "it is empty") from error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise ResultUnreadable(path, f"it is truncated or damaged: {error}") from error


def write_npz(stream: BinaryIO, arrays: Mapping[str, NDArray[Any]]) -> None:
    """An uncompressed .npz whose bytes depend on the arrays alone."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", EPOCH)
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def as_stored(name: str, array: NDArray[Any]) -> NDArray[Any]:
    compact = packed(array) if name.startswith("x_") and array.size else None
    return np.ascontiguousarray(array) if compact is None else compact


def packed(inputs: NDArray[np.float32]) -> NDArray[np.uint8] | None:
    """The bytes k of inputs that are all exactly k/255, or None."""
    compact = np.empty(inputs.shape, np.uint8)
    for start in range(0, len(inputs), ROWS):
        block = np.ascontiguousarray(inputs[start : start + ROWS])
        if not (block.min() >= 0 and block.max() <= 1):
            return None
        whole = np.rint(block * LARGEST_BYTE)
        if not np.array_equal((whole / LARGEST_BYTE).view(np.uint32), block.view(np.uint32)):
            return None
        compact[start : start + ROWS] = whole
    return compact


def unpacked(array: NDArray[Any]) -> NDArray[Any]:
    """Stored inputs as float32; bytes k become k/255."""
    if array.dtype != np.uint8:
        return array
    x = array.astype(np.float32)
    x /= LARGEST_BYTE
    return x


def array_sum(array: NDArray[Any]) -> str:
    """SHA-256 of the array's bytes in row-major order."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()
