"""What a killed training needs to go on: one file without pickles, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tangentbench.atomic import written_whole
from tangentbench.training.checkpoint_file import load_arrays, save_arrays

SAVE_EVERY_SECONDS = 60.0


@dataclass(frozen=True)
class ProgressFile:
    """`key` says of which training; a file with another key, or one that is damaged, is ignored."""

    path: Path
    key: str
    every_seconds: float = SAVE_EVERY_SECONDS

    def save(self, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        arrays = {f"tensor_{name}": tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
        save_arrays(self.path, self.key, {"facts": np.array(json.dumps(facts)), **arrays})

    def load(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        found = load_arrays(self.path, self.key)
        if found is None:
            return None
        facts: dict[str, Any] = json.loads(str(found.pop("facts")))
        return facts, {name.removeprefix("tensor_"): torch.from_numpy(values) for name, values in found.items()}


def save_parameters(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Named tensors, for instance `Stack.tensors` of an epoch, as .npz."""
    arrays: dict[str, Any] = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    with written_whole(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **arrays)


def load_parameters(path: Path) -> dict[str, Tensor]:
    with np.load(path, allow_pickle=False) as stored:
        return {name: torch.from_numpy(stored[name]) for name in stored}
