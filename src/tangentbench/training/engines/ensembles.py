"""Training of thousands of small networks that differ in their random start only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tangentbench.networks.losses import cross_entropy
from tangentbench.networks.small_mlp import ShallowNets, Span
from tangentbench.networks.stack import on_device


@dataclass(frozen=True)
class EnsembleSchedule:
    """How an ensemble is trained and when it is looked at."""

    epochs: tuple[int, ...]
    """After how many epochs, ascending."""
    batch: int
    step: float
    momentum: float


def train(
    nets: ShallowNets,
    span: Span,
    labels: Tensor,
    classes: int,
    schedule: EnsembleSchedule,
    orders: Callable[[int], Tensor],
) -> dict[str, np.ndarray]:
    """Train loss on all inputs and readout norm of every network after the given epochs, each (epochs, R).

    `orders` gives the order of the examples in an epoch, the same for all networks; it is not asked for where all
    examples are one batch. It runs on the process's device (device.py) and leaves `nets` on the CPU.
    """
    targets = torch.nn.functional.one_hot(labels, classes).to(span.inputs.dtype)
    with on_device(nets) as place:
        return _take_epochs(nets, span.inputs.to(place), labels.to(place), targets.to(place), schedule, orders)


def _take_epochs(
    nets: ShallowNets,
    inputs: Tensor,
    labels: Tensor,
    targets: Tensor,
    schedule: EnsembleSchedule,
    orders: Callable[[int], Tensor],
) -> dict[str, np.ndarray]:
    """What `train` does, with networks and examples on one device."""
    losses, norms = [], []
    count = len(inputs)
    for epoch in range(1, schedule.epochs[-1] + 1):
        if count <= schedule.batch:
            nets.descend(inputs, targets, schedule.step, schedule.momentum)
        else:
            order = orders(epoch).to(inputs.device)
            for start in range(0, count, schedule.batch):
                chosen = order[start : start + schedule.batch]
                nets.descend(inputs[chosen], targets[chosen], schedule.step, schedule.momentum)
        if epoch in schedule.epochs:
            losses.append(losses_of(nets, inputs, labels).cpu().numpy())
            norms.append(nets.readout_norms().cpu().numpy())
    return {"train_loss": np.stack(losses), "readout_norm": np.stack(norms)}


def losses_of(nets: ShallowNets, inputs: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy of each network on the inputs (N, r), (R,)."""
    outputs = nets.outputs(inputs)
    return cross_entropy(outputs, labels.expand(len(outputs), -1))
