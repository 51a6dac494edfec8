"""The file a killed training goes on from: named arrays without pickles, written whole or not at all."""

from __future__ import annotations

import logging
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tangentbench.files import written_whole

KEY = "key"
DAMAGED = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    # zipfile's words for a damaged header: "File is encrypted", "compression type 13"
    RuntimeError,
    NotImplementedError,
)

log = logging.getLogger(__name__)


def save_arrays(path: Path, key: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write the arrays; `key` says of which training they are."""
    fields: dict[str, Any] = {KEY: np.array(key), **arrays}
    with written_whole(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **fields)


def load_arrays(path: Path, key: str) -> dict[str, NDArray[Any]] | None:
    """The arrays of this training; None where there is no file or one of another training.

    Every member of the archive carries its checksum, so what is returned is what was saved; a damaged file is ignored
    with a warning.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            if str(stored[KEY]) != key:
                return None
            return {name: stored[name] for name in stored if name != KEY}
    except FileNotFoundError:
        return None
    except DAMAGED as error:
        log.warning("%s cannot be read (%s): this training begins anew", path, error)
        return None
