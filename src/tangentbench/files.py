"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tangentbench.errors import CannotWrite

CHUNK = 1 << 20

REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space and run again",
    errno.EDQUOT: "the quota is used up: free some space and run again",
    errno.EROFS: "the file system is read-only: choose another folder or remount it",
    errno.EACCES: "there is no permission to write there: change the folder's owner or mode",
    errno.EPERM: "there is no permission to write there: change the folder's owner or mode",
    errno.ENOTDIR: "a file stands where a folder is needed: move it away",
}


@contextmanager
def written_whole(target: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `target`; rename it onto `target` if the block succeeds, delete it otherwise.

    The bytes are flushed to disk before the rename, so a crash leaves the old file or the new one, never a part.

    Example:
        with written_whole(path) as temporary:
            frame.to_parquet(temporary)
    """
    target = Path(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=target.suffix, dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise cannot_write(target, error) from error
    temporary = Path(name)
    try:
        yield temporary
        flush(temporary)
        temporary.chmod(0o666 & ~current_umask())
        temporary.replace(target)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def current_umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def cannot_write(path: Path | str, error: OSError) -> CannotWrite:
    """The error for a failed write: the system's reason and what to do about it."""
    remedy = REMEDIES.get(error.errno or 0, "mend that and run again")
    return CannotWrite(path, error.strerror or str(error), remedy)


def write_json(path: Path | str, value: Any) -> None:
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path | str) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def sha256(path: Path | str) -> str:
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while block := stream.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()
