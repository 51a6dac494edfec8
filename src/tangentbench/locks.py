"""Locks that the system lets go of when their holder dies, so that kill -9 never leaves one behind."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tangentbench.files import cannot_write

LOCKS_UNKNOWN = {errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS}
"""What a file system without locks answers; work may then be done twice, never wrongly."""


@contextmanager
def locked(path: Path, wait: bool) -> Iterator[bool]:
    """Hold the lock `path`, a file that goes with it; yields False if another process holds it and we do not wait."""
    while True:
        stream = opened(path)
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            except OSError as error:
                if error.errno not in LOCKS_UNKNOWN:
                    raise cannot_write(path, error) from error
            if not stands_at(path, stream):
                continue  # whoever held it before us has removed the file: others would lock a new one
            try:
                yield True
            finally:
                path.unlink(missing_ok=True)
            return


def opened(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("w")
    except OSError as error:
        raise cannot_write(path, error) from error


def stands_at(path: Path, stream: IO[str]) -> bool:
    """Whether the open file is still the one called `path`."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False
