"""What the trainings of this study share: their progress files, and their names."""

from __future__ import annotations

from typing import Any

from tangentbench.studies.registry import Context
from tangentbench.training.progress_file import ProgressFile


def progress_file(context: Context, name: str, *key: Any) -> ProgressFile | None:
    """Where the training `name` of a job keeps its progress; `key` are the settings that make it another training."""
    if context.work is None:
        return None
    return ProgressFile(context.work / f"{name}.npz", key=repr((name, context.seed, *key)))
