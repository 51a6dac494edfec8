"""Every mistake a user can make has its own error here: one sentence that says what, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class TangentbenchError(Exception):
    """An error a user can cause and fix; shown as one sentence, without a traceback."""


class NotACheckout(TangentbenchError):
    def __init__(self, start: Path) -> None:
        super().__init__(
            f"no tangentbench checkout (a folder with config/ and src/tangentbench/studies) at or above {start}: "
            "change into one, or set TANGENTBENCH_HOME to it"
        )


class InvalidConfig(TangentbenchError):
    """A configuration file that cannot be read or does not fit its schema."""

    def __init__(self, file: Path | str, key: str, reason: str) -> None:
        self.file, self.key, self.reason = str(file), key, reason
        where = f" at {key}" if key else ""
        super().__init__(f"{file}{where}: {reason}")


class UnknownName(TangentbenchError):
    """A name that is not in the list it should come from, with the nearest ones that are."""

    def __init__(self, kind: str, name: str, known: Iterable[str], see: str = "") -> None:
        known = sorted(known)
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
        super().__init__(f"unknown {kind} '{name}': {hint}{f' ({see})' if see else ''}")


class DataMissing(TangentbenchError):
    """A data file that is neither in the mirror nor to be had from its publisher."""


class DataCorrupt(TangentbenchError):
    """A data file whose bytes are not the published ones."""


class StoreMismatch(TangentbenchError):
    """A Gram store, or a predictor, that belongs to other settings or other data than the ones at hand."""

    def __init__(self, where: Path | str, differences: str, remedy: str) -> None:
        super().__init__(f"{where} was made for something else ({differences}): {remedy}")


class TileCorrupt(TangentbenchError):
    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"{path} {reason}: run compute() on its store again, only this tile will be recomputed")


class TilesMissing(TangentbenchError):
    def __init__(self, folder: Path | str, missing: int, all_tiles: int) -> None:
        super().__init__(f"{missing} of the {all_tiles} tiles of {folder} are not computed yet: run compute() on it")


class UnfitArray(TangentbenchError):
    """Arrays of a shape, type or content that a kernel, a store or a regression cannot take."""


class TooLittleMemory(TangentbenchError):
    def __init__(self, what: str, needed: float, limit: float, remedy: str) -> None:
        super().__init__(
            f"{what} needs {readable_bytes(needed)} of memory and may use {readable_bytes(limit)}: {remedy}"
        )


class TooLittleDisk(TangentbenchError):
    def __init__(self, folder: Path | str, needed: float, free: float) -> None:
        super().__init__(
            f"{folder} needs {readable_bytes(needed)} more and its disk has {readable_bytes(free)} free: "
            "free some space or choose another folder"
        )


class NotPositiveDefinite(TangentbenchError):
    """A matrix that is numerically singular or indefinite, with the pivot or eigenvalue that says so."""

    def __init__(self, what: str, smallest: float, where: str) -> None:
        self.smallest = smallest
        super().__init__(
            f"{what} is numerically singular: {where} is {smallest:.3g}; "
            'give a ridge, ask for jitter="auto", or look for doubled inputs'
        )


class CannotWrite(TangentbenchError):
    def __init__(self, path: Path | str, reason: str, remedy: str) -> None:
        super().__init__(f"cannot write {path}: {reason}; {remedy}")


class CannotPull(TangentbenchError):
    """Shared results that could not be fetched, or do not belong to this checkout."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"nothing was taken over: {reason}; {remedy}")


class Diverged(TangentbenchError):
    """A training whose loss is no longer a number."""

    def __init__(self, what: str, step: int, setting: str) -> None:
        super().__init__(f"{what} became NaN or infinite at step {step} with {setting}: lower the learning rate")


class ResultUnreadable(TangentbenchError):
    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"cannot read {path} ({reason}): delete it and run again, only it will be rebuilt")


def readable_bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"
