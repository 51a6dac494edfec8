"""Whose work in progress this is: everything that decides the numbers of a job, in one record.

A job's folder carries the record of the job that filled it. What lies there (checkpoints, tiles, finished pieces) is
used by a job with the same record only: any other one empties the folder first and says in its log what differs.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tangentbench.atomic import cannot_write, read_json, write_json
from tangentbench.errors import ResultUnreadable

RECORD = "identity.json"
LONGEST_NAME = 150
"""Characters of a file's name, which must leave room for a suffix and for the name of its temporary file."""

_log = logging.getLogger("tangentbench")


@dataclass(frozen=True)
class Identity:
    """What a job computes with.

    settings: of the part. code: the fingerprint of the code behind the study function, with the versions that count.
    inputs: the SHA-256 of each file that goes in. device: its class, cpu or cuda.
    """

    artifact: str
    part: str
    scale: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    device: str = "cpu"

    def as_record(self) -> dict[str, Any]:
        """The identity as it is read back from JSON."""
        record: dict[str, Any] = json.loads(json.dumps(vars(self), sort_keys=True, default=str))
        return record

    @property
    def digest(self) -> str:
        text = json.dumps(self.as_record(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def differences(self, stored: Any) -> str:
        """Which facts of a stored record are others: "batch_size in settings, code"."""
        if not isinstance(stored, Mapping):
            return "all facts"
        ours, found = self.as_record(), []
        for key in sorted({*ours, *stored}):
            here, there = ours.get(key), stored.get(key)
            if here == there:
                continue
            if isinstance(here, Mapping) and isinstance(there, Mapping):
                inner = [one for one in sorted({*here, *there}) if here.get(one) != there.get(one)]
                found.append(f"{', '.join(inner)} in {key}")
            else:
                found.append(key)
        return ", ".join(found)


@dataclass(frozen=True)
class WorkFolder:
    """A folder whose files all belong to one identity; `mark` goes into files that could be carried elsewhere."""

    path: Path
    mark: str = ""
    record: Mapping[str, Any] | None = None
    """The identity, written beside the first piece of work: a job that keeps nothing leaves nothing."""
    _given: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def piece(self, name: str) -> str:
        """`name`, numbered where this job has a piece of work of that name already.

        A job asks for its pieces in the same order each time, so the same one finds its number again.
        """
        self._given[name] = number = self._given.get(name, 0) + 1
        return name if number == 1 else f"{name} ({number})"

    def file(self, piece: str, suffix: str) -> Path:
        return self._claimed() / f"{file_stem(piece)}{suffix}"

    def folder(self, piece: str) -> Path:
        return self._claimed() / file_stem(piece)

    def _claimed(self) -> Path:
        """The folder with its record in it."""
        if self.record is not None and not (self.path / RECORD).is_file():
            write_json(self.path / RECORD, dict(self.record))
        return self.path


def open_work(path: Path, identity: Identity) -> WorkFolder:
    """The work folder at `path`, with what a killed job of the same identity left in it, else empty."""
    record = path / RECORD
    if path.is_dir() and any(path.iterdir()):
        reason = _not_ours(record, identity)
        if reason is None:
            return WorkFolder(path, identity.digest, identity.as_record())
        _log.warning("%s holds unfinished work that is not of this job (%s): it starts anew", path, reason)
        _empty(path, record)
    return WorkFolder(path, identity.digest, identity.as_record())


def _not_ours(record: Path, identity: Identity) -> str | None:
    """Why the work beside this record cannot be used, or None."""
    try:
        stored = read_json(record)
    except FileNotFoundError:
        return f"it has no {RECORD}"
    except (ResultUnreadable, OSError):
        return f"its {RECORD} is damaged"
    differing = identity.differences(stored)
    return f"other: {differing}" if differing else None


def _empty(path: Path, record: Path) -> None:
    """Remove everything; the record first, so that what a kill leaves behind is nobody's."""
    try:
        record.unlink(missing_ok=True)
        shutil.rmtree(path)
    except OSError as error:
        raise cannot_write(path, error) from error


def file_stem(name: str) -> str:
    """`name` as a file's name; long ones are cut and told apart by a hash of the whole."""
    plain = "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in name)
    if len(plain.encode()) <= LONGEST_NAME and not plain.startswith("."):
        return plain
    short = plain.encode()[: LONGEST_NAME - 17].decode(errors="ignore").lstrip(".")
    return f"{short}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
