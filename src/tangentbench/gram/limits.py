"""Whether memory and disk suffice, asked before the work starts; and up to what size a certificate is exact."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tangentbench.errors import TooLittleDisk, TooLittleMemory

MEMINFO = Path("/proc/meminfo")

USABLE_SHARE = 0.8
"""Share of the machine's free memory that is taken when the user names no limit."""

DISK_MARGIN = 1.02
"""File-system overhead on top of the bytes that are written."""

DENSE_LIMIT = 5000
"""Rows of a matrix up to which a certificate computes all eigenvalues; beyond, Lanczos finds the two ends."""

LANCZOS_STEPS = 300
"""The most steps of Lanczos at one end."""


def memory_allowed(limit: float | None) -> float:
    """The user's limit in bytes, or most of what the machine has free."""
    return float(limit) if limit is not None else USABLE_SHARE * free_memory()


def free_memory() -> float:
    """Bytes that can be had without swapping: what Linux counts as available, elsewhere the free pages."""
    try:
        for line in MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    except OSError:
        pass
    return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def require_memory(what: str, needed: float, limit: float | None, remedy: str) -> None:
    allowed = memory_allowed(limit)
    if needed > allowed:
        raise TooLittleMemory(what, needed, allowed, remedy)


def require_disk(folder: Path, needed: float) -> None:
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if needed * DISK_MARGIN > free:
        raise TooLittleDisk(folder, needed * DISK_MARGIN, free)
