"""Multilayer perceptrons in the tangent-kernel parametrisation (conditioning paper, equation (1)), any activation.

    f(x) = v . z_L(x),   z_l(x) = sigma(h_l(x)) / sqrt(m),   h_1(x) = W_1 x,   h_(l+1)(x) = W_(l+1) z_l(x)

All weights start as standard normals; L hidden layers have width m. Many runs are one program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tangentbench.errors import TangentbenchError
from tangentbench.networks.initialisation import stream
from tangentbench.networks.numpy_on_torch import elementwise
from tangentbench.networks.scalar_mlp import ScalarMlp, gram
from tangentbench.theory.activations import Activation
from tangentbench.theory.quadrature import Function


@dataclass
class NtkMlpNets(ScalarMlp):
    """A batch of runs on the same inputs; training changes the weights in place.

    Shapes, with R runs, n inputs of dimension d, width m and L hidden layers:
        first (R, d, m)         W_1, mapping inputs from the right
        middle (L-1, R, m, m)   W_2, ..., W_L
        last (R, m)             v
        inputs (n, d), targets (R, n)
    """

    activation: Activation
    first: Tensor
    middle: Tensor
    last: Tensor
    inputs: Tensor
    targets: Tensor

    def forward(self) -> tuple[list[Tensor], Callable[[int], Tensor]]:
        before = [torch.matmul(self.inputs, self.first)]
        after = [self.scaled(self.activation.function, before[0])]
        for layer in range(len(self.middle)):
            before.append(torch.bmm(after[-1], self.middle[layer]))
            after.append(self.scaled(self.activation.function, before[-1]))
        return after, lambda layer: self.scaled(self.derivative, before[layer])

    def first_gradient(self, delta: Tensor) -> Tensor:
        return torch.matmul(self.inputs.T, delta)

    def first_gram(self, overlap: Tensor) -> Tensor:
        return gram(self.inputs) * overlap

    def scaled(self, function: Function, values: Tensor) -> Tensor:
        """function(h) / sqrt(m); an activation is written for numpy and needs no second version for torch."""
        result = elementwise(function, values)
        return result.mul_(self.last.shape[-1] ** -0.5)

    @property
    def derivative(self) -> Function:
        if self.activation.derivative is None:
            raise TangentbenchError(
                f"the activation {self.activation.name} has no derivative to train lower layers with"
            )
        return self.activation.derivative

    def top_kernel(self) -> Tensor:
        """K, the inner products of the top layer's features, shape (R, n, n)."""
        return gram(self.hidden()[-1])


@dataclass
class TopLayers:
    """The same runs with only v trained: features (R, n, m) stay as they are."""

    features: Tensor
    last: Tensor
    targets: Tensor

    @classmethod
    def of(cls, nets: NtkMlpNets) -> TopLayers:
        return cls(nets.hidden()[-1], nets.last.clone(), nets.targets)

    def descend(self, learning_rates: Tensor) -> Tensor:
        """One step on 1/2 sum e^2 in v alone; returns e before it, shape (R, n)."""
        errors = torch.bmm(self.features, self.last[:, :, None])[:, :, 0].sub_(self.targets)
        self.last -= torch.bmm((errors * learning_rates[:, None])[:, None, :], self.features)[:, 0, :]
        return errors

    def state(self) -> dict[str, np.ndarray]:
        return {"last": self.last.cpu().numpy()}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        self.last.copy_(torch.from_numpy(state["last"]))


def draw(
    activation: Activation,
    inputs: np.ndarray,
    targets: np.ndarray,
    width: int,
    depth: int,
    runs: Sequence[int],
    seed: int,
) -> NtkMlpNets:
    """Untrained float32 networks of `depth` hidden layers; `inputs` (n, d), `targets` (R, n).

    Run k's weights depend on (seed, k, width, depth) alone, so that activations are compared on the same ones.
    """
    if depth < 1:
        raise ValueError(f"a network needs at least one hidden layer, not {depth}")
    dimension = inputs.shape[1]
    first = torch.empty(len(runs), dimension, width)
    middle = torch.empty(depth - 1, len(runs), width, width)
    last = torch.empty(len(runs), width)
    for slot, run in enumerate(runs):
        generator = stream(seed, run, width, depth)
        for weights in (first[slot], middle[:, slot], last[slot]):
            weights.copy_(torch.randn(weights.shape, generator=generator))
    return NtkMlpNets(
        activation,
        first,
        middle,
        last,
        torch.from_numpy(np.ascontiguousarray(inputs, dtype=np.float32)),
        torch.from_numpy(np.ascontiguousarray(targets, dtype=np.float32)),
    )
