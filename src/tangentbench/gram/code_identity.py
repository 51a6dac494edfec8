"""Binds a store's tiles to the code that computes them: its fingerprint is one of the kernel's settings.

Settings are part of every tile's identity, so tiles of other code are never taken for finished ones.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tangentbench.atomic import read_json
from tangentbench.errors import ResultUnreadable
from tangentbench.gram.store import manifest_path

CODE = "code"

_log = logging.getLogger("tangentbench")


def with_code(kernel: Mapping[str, Any], code: str) -> dict[str, Any]:
    """The settings of a kernel together with the fingerprint of its code; as they are where there is none."""
    return {**kernel, CODE: code} if code else dict(kernel)


def discard_other_code(folder: Path, kernel: Mapping[str, Any]) -> None:
    """Remove the manifest of a store that other code, or other settings, began; its tiles then count for nothing."""
    file = manifest_path(folder)
    try:
        stored = read_json(file)
        if isinstance(stored, dict) and stored.get("kernel") == dict(kernel):
            return
    except FileNotFoundError:
        return
    except ResultUnreadable:
        pass
    _log.warning("%s was made by other code or with other settings: its tiles are computed anew", folder)
    file.unlink(missing_ok=True)
