"""Files that appear whole or not at all, and file locks that the system releases when their holder dies."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from tangentbench.errors import CannotWrite, ResultUnreadable

CHUNK = 1 << 20

_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space and run again",
    errno.EDQUOT: "the quota is used up: free some space and run again",
    errno.EROFS: "the file system is read-only: choose another folder or remount it",
    errno.EACCES: "there is no permission to write there: change the folder's owner or mode",
    errno.EPERM: "there is no permission to write there: change the folder's owner or mode",
    errno.ENOTDIR: "there is a file where a folder is needed: move it away",
}


@contextmanager
def written_whole(target: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `target`; rename it onto `target` if the block succeeds, delete it otherwise.

    The bytes are flushed to disk before the rename, so a crash leaves the old file or the new one, never a part; the
    folder is flushed after it, so that a file that was reported as written survives a loss of power. What
    a killed process left beside `target` is removed: a temporary file is locked while its writer lives.

    Example:
        with written_whole(path) as temporary:
            frame.to_parquet(temporary)
    """
    target = Path(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
        handle, temporary = _locked_temporary(target)
    except OSError as error:
        raise cannot_write(target, error) from error
    try:
        yield temporary
        flush(temporary)
        temporary.replace(target)
        flush(target.parent)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)
        os.close(handle)


def _locked_temporary(target: Path) -> tuple[int, Path]:
    """A new hidden file beside `target` and the handle that holds its lock."""
    while True:
        name = target.parent / f".{target.stem}.{secrets.token_hex(4)}{target.suffix}"
        try:  # unlike mkstemp's, the mode is the umask's, which no thread then has to ask for by setting it
            handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            continue
        if _acquire(handle, wait=False) is not False and os.fstat(handle).st_nlink:
            return handle, name
        os.close(handle)  # another process took it for a leftover before it was locked


def _remove_leftovers(target: Path) -> None:
    """Remove the temporary files of `target` whose writers are dead."""
    ours = re.compile(rf"\.{re.escape(target.stem)}\.[a-z0-9_]{{8}}{re.escape(target.suffix)}")
    for file in target.parent.iterdir():
        if not ours.fullmatch(file.name):
            continue
        with suppress(OSError):
            handle = os.open(file, os.O_RDWR)
            try:
                if _acquire(handle, wait=False):
                    file.unlink()
            finally:
                os.close(handle)


def flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cannot_write(path: Path | str, error: OSError) -> CannotWrite:
    """The error for a failed write: the system's reason and what to do about it."""
    remedy = _REMEDIES.get(error.errno or 0, "fix this and run again")
    return CannotWrite(path, error.strerror or str(error), remedy)


def write_json(path: Path | str, value: Any) -> None:
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path | str) -> Any:
    """The value in the file; one clear error where its text is not valid JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ResultUnreadable(path, f"it is not valid JSON: {error}") from error


def sha256(path: Path | str) -> str:
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while block := stream.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


_WITHOUT_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS}
"""What a file system without locks answers; work may then be done twice, never wrongly."""


@contextmanager
def locked(path: Path, wait: bool) -> Iterator[bool]:
    """Hold an flock on the file `path`, which is removed on release.

    Yields False if another process holds it and `wait` is false.
    """
    while True:
        with _lock_file(path) as stream:
            try:
                held = _acquire(stream.fileno(), wait)
            except OSError as error:
                raise cannot_write(path, error) from error
            if held is False:
                yield False
                return
            if not _is_at(path, stream):
                continue  # the holder before us has removed this file: others would lock a new one
            try:
                yield True
            finally:
                path.unlink(missing_ok=True)
            return


def _acquire(handle: int, wait: bool) -> bool | None:
    """Take the flock of an open file.

    True if it is ours now, False if another process holds it, None if the file system has no locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _WITHOUT_LOCKS:
            return None
        raise
    return True


def _lock_file(path: Path) -> IO[str]:
    """The file `path`, open for writing; it and its folder are made where they are missing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("w")
    except OSError as error:
        raise cannot_write(path, error) from error


def _is_at(path: Path, stream: IO[str]) -> bool:
    """Whether the open file is still the one called `path`."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False
