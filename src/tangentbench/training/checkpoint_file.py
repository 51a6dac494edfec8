"""The file a killed training goes on from: named arrays without pickles, written whole or not at all."""

from __future__ import annotations

import json
import logging
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tangentbench.atomic import written_whole

LABEL = "label"
DAMAGED = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
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
    # the archive's members carry their checksums; that all of them are there must be said too
    label = json.dumps({"key": key, "names": sorted(arrays)})
    fields: dict[str, Any] = {LABEL: np.array(label), **arrays}
    with written_whole(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **fields)


def load_arrays(path: Path, key: str) -> dict[str, NDArray[Any]] | None:
    """The arrays of this training, as they were saved; None where there is no file or one of another training.

    A damaged file is ignored with a warning.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            label = json.loads(str(stored[LABEL]))
            if label["key"] != key:
                return None
            return {name: stored[name] for name in label["names"]}
    except FileNotFoundError:
        return None
    except DAMAGED as error:
        log.warning("%s cannot be read (%s): this training begins anew", path, error)
        return None
