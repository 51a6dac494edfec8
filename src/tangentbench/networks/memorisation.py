"""The memorisation network (Definition E.1, Table 4 of the neural-path-kernel paper), many runs as one program.

Input 1, `depth` layers of weights, and gates that are drawn once and never learnt: example s has its own sub-network.

    z_s(0) = 1,   q_s(l) = Theta(l)^T z_s(l-1),   z_s(l) = q_s(l) * G_s(l),   y_hat(s) = Theta(d)^T z_s(d-1)

Runs that differ only in their random numbers are one batch: each layer is a single batched matrix product over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tangentbench.networks.architecture import MemorisationSpec
from tangentbench.networks.initialisation import stream
from tangentbench.networks.scalar_mlp import ScalarMlp


@dataclass
class MemorisationNets(ScalarMlp):
    """A batch of runs; training changes the weights in place.

    Shapes, with R runs, n examples, width w and depth d:
        first (R, w)            Theta(1)
        middle (d-2, R, w, w)   Theta(2), ..., Theta(d-1), each mapping z(l-1) to q(l) from the right
        last (R, w)             Theta(d)
        gates (d-1, R, n, w)    G(1), ..., G(d-1), entries 0 or 1
        targets (R, n)          y
    """

    first: Tensor
    middle: Tensor
    last: Tensor
    gates: Tensor
    targets: Tensor

    @property
    def depth(self) -> int:
        return len(self.middle) + 2

    def forward(self) -> tuple[list[Tensor], Callable[[int], Tensor]]:
        layers = [self.first[:, None, :] * self.gates[0]]
        for layer in range(len(self.middle)):
            layers.append(torch.bmm(layers[-1], self.middle[layer]).mul_(self.gates[layer + 1]))
        return layers, self.gates.__getitem__

    def first_gradient(self, delta: Tensor) -> Tensor:
        """The input is 1 for every example."""
        return delta.sum(dim=1)

    def first_gram(self, overlap: Tensor) -> Tensor:
        return overlap


def draw(
    spec: MemorisationSpec, runs: Sequence[int], seed: int, dtype: torch.dtype = torch.float32
) -> MemorisationNets:
    """The untrained networks of the given runs, with targets from Uniform[-1, 1].

    Run k depends on (seed, k) and the architecture alone, never on which other runs are drawn with it. Its targets do
    not depend on the architecture either, so that depths and widths are compared on the same task.
    """
    width, examples, middle = spec.width, spec.examples, spec.middle_layers
    nets = MemorisationNets(
        first=torch.empty(len(runs), width, dtype=dtype),
        middle=torch.empty(middle, len(runs), width, width, dtype=dtype),
        last=torch.empty(len(runs), width, dtype=dtype),
        gates=torch.empty(middle + 1, len(runs), examples, width, dtype=dtype),
        targets=torch.empty(len(runs), examples, dtype=dtype),
    )
    for slot, run in enumerate(runs):
        generator = stream(seed, run, width, spec.depth)
        for weights in (nets.first[slot], nets.middle[:, slot], nets.last[slot]):
            weights.copy_(_draw_weights(spec, weights.shape, generator))
        on = torch.rand(middle + 1, examples, width, generator=generator) < spec.gate_probability
        nets.gates[:, slot] = on.to(dtype)
        uniform = torch.rand(examples, generator=stream(seed, run), dtype=torch.float64)
        nets.targets[slot] = (2 * uniform - 1).to(dtype)
    return nets


def _draw_weights(spec: MemorisationSpec, shape: Sequence[int], generator: torch.Generator) -> Tensor:
    if spec.weight_distribution == "gaussian":
        return spec.weight_scale * torch.randn(*shape, generator=generator, dtype=torch.float64)
    signs = 2 * torch.randint(0, 2, tuple(shape), generator=generator) - 1
    return spec.weight_scale * signs.to(torch.float64)
