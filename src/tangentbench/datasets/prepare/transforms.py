"""The table of transforms: a name in config/datasets.yaml, and the function it runs.

A transform takes a data set and its settings and returns a data set. One that draws random numbers has a parameter
called `rng`. A new one goes into the file of its kind, gets the decorator, and one entry in the JSON schema.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from tangentbench.datasets.dataset import Dataset

Transform = Callable[..., Dataset]
F = TypeVar("F", bound=Transform)

KINDS = ("selection", "prepare.resampling", "prepare.scaling")

_TRANSFORMS: dict[str, Transform] = {}


def transform(name: str) -> Callable[[F], F]:
    """Register a function under `name`."""

    def register(function: F) -> F:
        _TRANSFORMS[name] = function
        return function

    return register


def known_transforms() -> dict[str, Transform]:
    for kind in KINDS:
        importlib.import_module(f"tangentbench.datasets.{kind}")
    return dict(_TRANSFORMS)


def apply(dataset: Dataset, name: str, settings: Mapping[str, Any], rng: np.random.Generator) -> Dataset:
    """Run one transform; a setting that does not fit the data raises ValueError."""
    function = known_transforms()[name]
    seeded = {"rng": rng} if "rng" in inspect.signature(function).parameters else {}
    return function(dataset, **seeded, **settings)
