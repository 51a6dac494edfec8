"""The passes of nearly linear networks on the process's device.

On the CPU they are those of leaky_mlp.py, in blocks that fit a core's cache and one run after the other. A GPU needs
products large enough to fill it: all runs in one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tangentbench.device import CPU, current
from tangentbench.networks import leaky_mlp
from tangentbench.networks.leaky_mlp import RegressionTask, blocks
from tangentbench.networks.mlp_shape import MlpShape, Weights

_BLOCK_BYTES = 256 * 2**20
"""Activations and errors of the examples that are passed at a time."""


def outputs_on_device(shape: MlpShape, weights: Weights, epsilons: Weights, x: Tensor) -> NDArray[np.float64]:
    """f(x) of every run, (R, m), as `leaky_mlp.outputs`."""
    device = current()
    if device.type == CPU:
        return leaky_mlp.outputs(shape, weights, epsilons, x)
    runs = Batch.of(shape, weights, epsilons, x.dtype, device)
    parts = [runs.activations(x[block].to(device))[-1] @ runs.last for block in blocks(len(x), runs.block_size())]
    return torch.cat(parts, dim=1)[:, :, 0].double().cpu().numpy()


def velocity_on_device(shape: MlpShape, task: RegressionTask) -> Callable[[Weights, Weights], Weights]:
    """`leaky_mlp.velocity` as a function of weights and nonlinearities; the examples are moved once."""
    device = current()
    if device.type == CPU:
        return lambda weights, epsilons: leaky_mlp.velocity(shape, weights, epsilons, task)
    x, y = task.x_train.to(device), task.y_train.to(device)

    def velocity(weights: Weights, epsilons: Weights) -> Weights:
        runs = Batch.of(shape, weights, epsilons, x.dtype, device)
        parts = [runs.gradients(x[block], y[block]) for block in blocks(len(x), runs.block_size())]
        layers = [torch.stack(layer).sum(dim=0).cpu().numpy() / len(x) for layer in zip(*parts, strict=True)]
        return shape.join(layers)

    return velocity


@dataclass(frozen=True, eq=False)
class Batch:
    """All runs' weights on the device: hidden layers (R, outputs, inputs), the last one (R, width, 1)."""

    hidden: list[Tensor]
    last: Tensor
    slopes: Tensor
    """1 - epsilon of each run, (R, 1, 1)."""

    @classmethod
    def of(
        cls, shape: MlpShape, weights: Weights, epsilons: Weights, dtype: torch.dtype, device: torch.device
    ) -> Batch:
        def moved(array: Weights) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(dtype).to(device)

        *hidden, last = shape.split(weights)
        return cls([moved(layer) for layer in hidden], moved(last.swapaxes(1, 2)), moved(1.0 - epsilons)[:, None, None])

    def block_size(self) -> int:
        """Examples whose activations and errors fit into _BLOCK_BYTES."""
        runs, width, _ = self.last.shape
        return max(1, _BLOCK_BYTES // (2 * len(self.hidden) * runs * width * self.last.element_size()))

    def activations(self, x: Tensor) -> list[Tensor]:
        """The inputs (m, d) and the hidden layers' activations (R, m, width)."""
        acts = [x]
        for layer in self.hidden:
            before = torch.matmul(acts[-1], layer.mT)
            acts.append(torch.where(before > 0, before, self.slopes * before))
        return acts

    def gradients(self, x: Tensor, y: Tensor) -> list[Tensor]:
        """A block's sums of (y - f) df/dW of each layer, (R, outputs, inputs), in double precision."""
        acts = self.activations(x)
        residual = y[:, None] - torch.bmm(acts[-1], self.last)
        found = [torch.bmm(residual.mT, acts[-1]).double()]
        error = residual * self.last.mT
        for position in reversed(range(len(self.hidden))):
            error = torch.where(acts[position + 1] > 0, error, self.slopes * error)
            found.append(torch.matmul(error.mT, acts[position]).double())
            if position > 0:
                error = torch.bmm(error, self.hidden[position])
        return found[::-1]
