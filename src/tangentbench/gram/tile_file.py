"""One array in one file that proves itself: a .npy file, followed by a line with its checksum and its identity.

numpy reads and maps such a file as any other .npy file (what follows the array is ignored), and because array, checksum
and identity arrive in one rename, a reader never sees one without the other. By hand:
`head -c -130 FILE | sha256sum` must print the first word of `tail -c 130 FILE`.
"""

from __future__ import annotations

import hashlib
import io
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tangentbench.atomic import CHUNK, written_whole
from tangentbench.errors import TileCorrupt

TRAILER_BYTES = 2 * 64 + 2
"""Two hexadecimal SHA-256 sums, a space between and a line end."""


def digest_of(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def write(path: Path, array: NDArray[Any], identity: str) -> None:
    """Write `array` (C order) whole, with its checksum; `identity` (64 hex digits) says what it was computed from."""
    array = np.ascontiguousarray(array)
    header = npy_header(array.shape, array.dtype)
    content = array.data.cast("B") if array.size else memoryview(b"")
    digest = hashlib.sha256(header)
    digest.update(content)
    with written_whole(path) as temporary, temporary.open("wb") as stream:
        stream.write(header)
        stream.write(content)
        stream.write(f"{digest.hexdigest()} {identity}\n".encode())


@lru_cache(maxsize=1024)
def npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    stream = io.BytesIO()
    description = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, description)
    return stream.getvalue()


def file_bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """The size of the finished file."""
    return len(npy_header(shape, dtype)) + int(np.prod(shape)) * dtype.itemsize + TRAILER_BYTES


def is_finished(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], identity: str) -> bool:
    """Whether the file is there, has its full size and belongs to `identity`; its bytes are not read."""
    try:
        with path.open("rb") as stream:
            if stream.seek(0, io.SEEK_END) != file_bytes(shape, dtype):
                return False
            stream.seek(-TRAILER_BYTES, io.SEEK_END)
            return stream.read().decode("ascii", "replace").rstrip("\n")[65:] == identity
    except FileNotFoundError:
        return False


def is_intact(path: Path) -> bool:
    """Whether the bytes of the file still have the checksum they were written with."""
    size = path.stat().st_size - TRAILER_BYTES
    if size < 0:
        return False
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while size > 0 and (chunk := stream.read(min(CHUNK, size))):
            digest.update(chunk)
            size -= len(chunk)
        return stream.read(64) == digest.hexdigest().encode()


def verify(path: Path) -> None:
    if not is_intact(path):
        raise TileCorrupt(path, "no longer has the checksum it was written with")


def as_map(path: Path, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The array, read-only, mapped and not loaded."""
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=len(npy_header(shape, dtype)), shape=shape)


def read_rows(path: Path, shape: tuple[int, int], dtype: np.dtype[Any], first: int, last: int) -> NDArray[Any]:
    """Rows first..last of a two-dimensional array, read into fresh memory."""
    row_bytes = shape[1] * dtype.itemsize
    offset = len(npy_header(shape, dtype)) + first * row_bytes
    flat = np.fromfile(path, dtype=dtype, count=(last - first) * shape[1], offset=offset)
    return flat.reshape(last - first, shape[1])
