"""The file an interrupted training resumes from: facts and arrays without pickles, written whole or not at all."""

from __future__ import annotations

import json
import logging
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tangentbench.atomic import written_whole
from tangentbench.identity import WorkFolder

SAVE_EVERY_SECONDS = 60.0

_LABEL, _PREFIX = "label", "array_"
_DAMAGED = (
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

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Saved:
    """What a checkpoint holds: `facts` that JSON can express, and arrays by name."""

    facts: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The arrays as tensors that share their memory."""
        return {name: torch.from_numpy(values) for name, values in self.arrays.items()}


@dataclass(frozen=True)
class Checkpoint:
    """A file with the state of one training.

    identity: says which training the file belongs to; a file with another identity is ignored.
    every_seconds: how often a training saves its state.
    """

    path: Path
    identity: str
    every_seconds: float = SAVE_EVERY_SECONDS

    def save(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any] | Tensor]) -> None:
        """Replace the file by one with this state."""
        # The archive's members carry checksums of their own; that none of them is missing must be recorded too.
        label = {"identity": self.identity, "facts": dict(facts), "names": sorted(arrays)}
        members: dict[str, Any] = {_PREFIX + name: _as_array(values) for name, values in arrays.items()}
        with written_whole(self.path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, **{_LABEL: np.array(json.dumps(label)), **members})

    def load(self) -> Saved | None:
        """The state saved last; None where there is no file or it belongs to another training.

        Another training's file, or a damaged one, is ignored with a warning.
        """
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                label = json.loads(str(stored[_LABEL]))
                if label["identity"] != self.identity:
                    _log.warning("%s is of another training: this one starts anew", self.path)
                    return None
                if not isinstance(label["facts"], dict):
                    raise ValueError("its facts are not a mapping")
                return Saved(label["facts"], {name: stored[_PREFIX + name] for name in label["names"]})
        except FileNotFoundError:
            return None
        except _DAMAGED as error:
            _log.warning("%s cannot be read (%s): this training starts again", self.path, error)
            return None


def checkpoint_in(work: WorkFolder | None, name: str) -> Checkpoint | None:
    """The checkpoint of the training `name` in a job's folder; None where the job has no folder.

    The folder's identity stands for settings, code, data and seed; the name tells the trainings of one job apart.
    """
    if work is None:
        return None
    piece = work.piece(name)
    return Checkpoint(work.file(piece, ".npz"), f"{work.mark} {piece}")


def _as_array(values: NDArray[Any] | Tensor) -> NDArray[Any]:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values
