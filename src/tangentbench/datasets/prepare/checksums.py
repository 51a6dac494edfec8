"""Bytes against their published size and sum, before anything is parsed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tangentbench.atomic import CHUNK
from tangentbench.errors import DataCorrupt

NAMES = {"sha256": "SHA-256", "md5": "MD5"}


@dataclass(frozen=True)
class Published:
    """The size and the sum a publisher, or a public record of his files, gives."""

    bytes: int
    sum: str
    algorithm: str = "sha256"


def check_file(path: Path, published: Published, remedy: str) -> None:
    """Raise DataCorrupt unless the file at `path` is the published one."""
    digest = hashlib.new(published.algorithm, usedforsecurity=False)
    size = 0
    with path.open("rb") as stream:
        while block := stream.read(CHUNK):
            size += len(block)
            digest.update(block)
    compare(str(path), size, digest.hexdigest(), published, remedy)


def check_bytes(what: str, data: bytes, published: Published, remedy: str) -> None:
    """Raise DataCorrupt unless `data`, called `what`, is the published content."""
    digest = hashlib.new(published.algorithm, data, usedforsecurity=False)
    compare(what, len(data), digest.hexdigest(), published, remedy)


def compare(what: str, size: int, actual: str, published: Published, remedy: str) -> None:
    if size != published.bytes or actual != published.sum:
        name = NAMES[published.algorithm]
        raise DataCorrupt(
            f"{what} is not what was published: it has {size} bytes and {name} {actual}, "
            f"expected {published.bytes} bytes and {name} {published.sum}; {remedy}"
        )
