"""Which parameters are drawn from another distribution, and results kept while a job runs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import torch

from tangentbench.identity import WorkFolder
from tangentbench.networks.initialisation import stream
from tangentbench.networks.weight_distributions import (
    GAUSSIAN,
    WeightDistribution,
    truncated_gaussian,
    weight_distribution,
)
from tangentbench.training.checkpoint import checkpoint_in

ALL = "all"


def distributions_of(
    name: str, swapped: str, truncation_sigmas: float | None = None
) -> tuple[WeightDistribution, WeightDistribution]:
    """The distribution of the square hidden matrices, and that of all other parameters."""
    distribution = weight_distribution(name)
    if truncation_sigmas is not None and distribution.name == "truncated_gaussian":
        distribution = truncated_gaussian(truncation_sigmas)
    return distribution, (distribution if swapped == ALL else weight_distribution(GAUSSIAN))


def named_stream(name: str, *key: int) -> torch.Generator:
    """A stream for each name, also of a distribution that a user adds."""
    return stream(zlib.crc32(name.encode()), *key)


def chunks(runs: int, bytes_per_run: float, budget: float) -> Iterator[range]:
    """The runs in batches whose weights take about `budget` bytes."""
    size = max(1, int(budget // bytes_per_run))
    for start in range(0, runs, size):
        yield range(start, min(start + size, runs))


def kept(work: WorkFolder | None, name: str, make: Callable[[], dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """What `make` gives, stored in the job's folder under `name`; a killed job finds it there again."""
    file = checkpoint_in(work, name)
    if file is None:
        return make()
    found = file.load()
    if found is not None:
        return found.tensors
    made = make()
    file.save({}, made)
    return made
