"""Taking compressed bytes apart, never more of them than were announced."""

from __future__ import annotations

import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tangentbench.atomic import CHUNK
from tangentbench.errors import DataCorrupt

XZ_MEMORY = 256 << 20  # xz -9 needs 65 MiB; a header that asks for gigabytes is refused


def read_plain(path: Path, limit: int) -> bytes:
    """The file's bytes, at most one more than `limit`, so that a longer file shows."""
    with path.open("rb") as stream:
        return stream.read(limit + 1)


def read_gz(path: Path, limit: int) -> bytes:
    try:
        with gzip.open(path, "rb") as stream:
            return stream.read(limit + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise damaged(path, error) from error


def read_xz(path: Path, limit: int) -> bytes:
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
    out = bytearray()
    try:
        with path.open("rb") as stream:
            while not decoder.eof and len(out) <= limit:
                block = stream.read(CHUNK) if decoder.needs_input else b""
                if decoder.needs_input and not block:
                    raise EOFError("it ends too early")
                out += decoder.decompress(block, max_length=limit + 1 - len(out))
    except (EOFError, lzma.LZMAError) as error:
        raise damaged(path, error) from error
    return bytes(out)


def read_members(path: Path, sizes: Mapping[str, int]) -> dict[str, bytes]:
    """The members of a .tar.gz named in `sizes`, which gives their exact sizes in bytes.

    The archive is read once from front to back and left as soon as all are there; nothing is ever written.
    """
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if name not in sizes:
                    continue
                if not member.isreg() or member.size != sizes[name]:
                    raise DataCorrupt(
                        f"{name} in {path} is no plain file of {sizes[name]} bytes: "
                        "replace the archive by the published one"
                    )
                found[name] = read_member(archive, member)
                if len(found) == len(sizes):
                    break
    except (EOFError, tarfile.TarError, gzip.BadGzipFile, zlib.error) as error:
        raise damaged(path, error) from error
    if missing := sorted(set(sizes) - set(found)):
        raise DataCorrupt(f"{path} lacks {', '.join(missing)}: replace the archive by the published one")
    return found


def read_zip_members(path: Path, sizes: Mapping[str, int]) -> dict[str, bytes]:
    """The members of a .zip named in `sizes`, which gives their exact sizes in bytes; nothing is ever written."""
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name, size in sizes.items():
                if name not in archive.namelist():
                    raise DataCorrupt(f"{path} lacks {name}: replace the archive by the published one")
                with archive.open(name) as stream:
                    # the header's size is a claim: what comes out is counted
                    found[name] = stream.read(size + 1)
                if len(found[name]) != size:
                    raise DataCorrupt(
                        f"{name} in {path} is no plain file of {size} bytes: replace the archive by the published one"
                    )
    except (EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise damaged(path, error) from error
    return found


def read_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream: IO[bytes] | None = archive.extractfile(member)
    if stream is None:
        raise tarfile.ReadError(f"{member.name} cannot be read")
    data = stream.read(member.size)
    if len(data) != member.size:
        raise EOFError(f"{member.name} ends too early")
    return data


def damaged(path: Path, error: Exception) -> DataCorrupt:
    return DataCorrupt(
        f"{path} cannot be unpacked ({error}), it is truncated or damaged: replace it by a fresh copy, or remove it"
    )
