"""How alike the representations of different inputs are, as a probe during training (conditioning paper, Figure 1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tangentbench.networks.resnet_runs import DeepNets
from tangentbench.training.loop import Probe

BATCH = 500


def mean_dot_product(representations: Tensor, absolute: bool = False) -> Tensor:
    """The mean normalised dot product over distinct pairs, (R,), of representations (R, n, w).

    Signed, it follows from the sum of the normalised vectors: ||sum||^2 = n + sum over ordered pairs. A representation
    that is zero counts as orthogonal to all.
    """
    units = functional.normalize(representations.double(), dim=2)
    count = units.shape[1]
    total = torch.bmm(units, units.mT).abs().sum(dim=(1, 2)) if absolute else units.sum(dim=1).square().sum(dim=1)
    own = units.square().sum(dim=(1, 2))
    return (total - own) / (count * (count - 1))


def dot_product_probe(inputs: Tensor, epochs: Iterable[int], absolute: bool = False) -> Probe:
    """Measures `dot_product` of every run on the same inputs (n, ...) after the given epochs, where it trains."""

    @torch.no_grad()
    def measure(nets: DeepNets, runs: Sequence[int], _: int) -> list[dict[str, Any]]:
        place = next(iter(nets.parameters.tensors.values())).device
        batches = [own.to(place).expand(len(runs), *own.shape) for own in torch.split(inputs, BATCH)]
        representations = torch.cat([nets.representations(own) for own in batches], dim=1)
        values = mean_dot_product(representations, absolute).tolist()
        return [{"run": run, "dot_product": value} for run, value in zip(runs, values, strict=True)]

    return Probe(measure, epochs=frozenset(epochs), on_device=True)
