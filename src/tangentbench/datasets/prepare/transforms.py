"""The table of transforms: a name in config/datasets.yaml, and the function it runs.

A transform takes a data set and its settings and returns a data set. One that draws random numbers has a parameter
called `rng`. A new one goes into the file of its kind, and gets a line here and one entry in the JSON schema.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tangentbench.datasets import resampling, scaling, selection
from tangentbench.datasets.dataset import Dataset

Transform = Callable[..., Dataset]

TRANSFORMS: Mapping[str, Transform] = {
    "subset": selection.subset,
    "classes": selection.classes,
    "binary": selection.binary,
    "downsample": resampling.downsample,
    "upsample": resampling.upsample,
    "grey": resampling.grey,
    "flatten": resampling.flatten,
    "centre": scaling.centre,
    "standardise": scaling.standardise,
    "unit_norm": scaling.unit_norm,
    "whiten": scaling.whiten,
}


def apply(dataset: Dataset, name: str, settings: Mapping[str, Any], rng: np.random.Generator) -> Dataset:
    """Run one transform; a setting that does not fit the data raises ValueError."""
    function = TRANSFORMS[name]
    seeded = {"rng": rng} if "rng" in inspect.signature(function).parameters else {}
    return function(dataset, **seeded, **settings)
