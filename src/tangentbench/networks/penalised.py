"""ReLU networks with an L2 penalty on all weights and the bias as a constant input (thesis 5.2), many as one program.

    Z_1 = W_1 Z_0^s,   Z_(l+1) = W_(l+1) (sigma(Z_l), beta 1^T),   L = C(Z_L) + lambda sum_l ||W_l||_F^2

The networks see the same inputs but may differ in width, penalty and initial weights. Their first layers are the rows
of one matrix, so that the product with the inputs, by far the largest, is a single one without padding; above it,
networks of one width are a batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from tangentbench.networks.initialisation import stream
from tangentbench.networks.losses import LOSSES
from tangentbench.networks.mlp_shape import MlpShape
from tangentbench.networks.stack import move


@dataclass(frozen=True)
class Member:
    """One network of a family: the width of its hidden layers, its penalty lambda, and the number of its trial."""

    width: int
    penalty: float
    trial: int = 0


@dataclass(eq=False)
class Group:
    """The members of one width, which are neighbours in the family."""

    members: Sequence[Member]
    rows: slice
    """Their neurons' rows of the first layer."""
    upper: list[Tensor]
    """W_2, ..., W_L, each (members, outputs, inputs + 1)."""
    decay: Tensor
    """2 lambda of each, (members, 1, 1)."""

    def outputs(self, first: Tensor, bias: float) -> Tensor:
        """Z_L, (members, k, N), from the pre-activations Z_1 of the group's rows, (rows, N)."""
        z = first.view(len(self.members), -1, first.shape[1])
        for layer in self.upper:
            z = torch.baddbmm(bias * layer[:, :, -1:], layer[:, :, :-1], torch.relu(z))
        return z


class PenalisedNets:
    """A family of networks on the same inputs and labels.

    `inputs` (N, d) are the columns of Z_0^s, the bias among them (`with_bias`); `labels` are classes (N,) or targets
    (N, k). Members are put in order of their width, and results come in that order.
    """

    def __init__(
        self,
        members: Sequence[Member],
        starts: Sequence[Sequence[Tensor]],
        inputs: Tensor,
        labels: Tensor,
        *,
        bias: float,
        loss: str,
    ) -> None:
        """`starts` are the initial weights W_1, ..., W_L of each member, each (outputs, inputs + 1)."""
        order = sorted(range(len(members)), key=lambda index: members[index].width)
        self.members = [members[index] for index in order]
        self.inputs, self.labels, self.bias, self.loss = inputs, labels, bias, LOSSES[loss]
        own = [starts[index] for index in order]
        self.first = torch.cat([weights[0] for weights in own]).requires_grad_()
        penalties = torch.tensor([member.penalty for member in self.members], dtype=inputs.dtype)
        widths = torch.tensor([member.width for member in self.members])
        self.first_decay = 2 * penalties.repeat_interleave(widths)[:, None]
        self.groups: list[Group] = []
        row = 0
        for width, indices in groupby(range(len(own)), key=lambda index: self.members[index].width):
            together = list(indices)
            rows = slice(row, row + width * len(together))
            upper = [
                torch.stack(layers).requires_grad_() for layers in zip(*(own[one][1:] for one in together), strict=True)
            ]
            decay = 2 * penalties[together][:, None, None]
            self.groups.append(Group([self.members[one] for one in together], rows, upper, decay))
            row = rows.stop

    def moved(self) -> None:
        """Move the groups to the device of the first layer."""
        for group in self.groups:
            move(group, self.first.device)

    @property
    def parameters(self) -> list[Tensor]:
        return [self.first, *(layer for group in self.groups for layer in group.upper)]

    def outputs(self, inputs: Tensor) -> Tensor:
        """Z_L of every member, (M, N, k)."""
        # one split, not one slice per group: the gradient of a slice is a matrix of zeros as large as the whole
        sizes = [group.rows.stop - group.rows.start for group in self.groups]
        parts = torch.split(self.first @ inputs.T, sizes)
        together = [group.outputs(part, self.bias) for group, part in zip(self.groups, parts, strict=True)]
        return torch.cat(together).mT

    def costs(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """C of every member without its penalty, (M,)."""
        return self.loss(self.outputs(inputs), labels.expand(len(self.members), *labels.shape))

    def backward(self) -> Tensor:
        """Put the penalised loss's gradient into `.grad` of the parameters; the costs C before the step, (M,)."""
        for parameter in self.parameters:
            parameter.grad = None
        costs = self.costs(self.inputs, self.labels)
        # members share no parameter, so the gradient of the sum holds each one's own
        costs.sum().backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for parameter, decay in self.decays():
                assert parameter.grad is not None
                parameter.grad.addcmul_(parameter, decay)
        return costs.detach()

    def decays(self) -> list[tuple[Tensor, Tensor]]:
        upper = [(layer, group.decay) for group in self.groups for layer in group.upper]
        return [(self.first, self.first_decay), *upper]

    @torch.no_grad()
    def penalties(self) -> Tensor:
        """lambda sum_l ||W_l||_F^2 of every member, (M,)."""
        parts = []
        for group in self.groups:
            first = self.first[group.rows].view(len(group.members), -1)
            total = first.square().sum(dim=1)
            for layer in group.upper:
                total = total + layer.square().sum(dim=(1, 2))
            parts.append(total * group.decay[:, 0, 0] / 2)
        return torch.cat(parts)

    def describe(self, index: int) -> str:
        member = self.members[index]
        return f"width {member.width}, penalty {member.penalty:g}, trial {member.trial}"

    def weights_of(self, index: int) -> list[Tensor]:
        """W_1, ..., W_L of the member at `index`, each (outputs, inputs + 1)."""
        member = self.members[index]
        group = next(one for one in self.groups if one.members[0].width == member.width)
        slot = index - self.members.index(group.members[0])
        top = group.rows.start + slot * member.width
        return [self.first[top : top + member.width].detach(), *(layer[slot].detach() for layer in group.upper)]


def with_bias(inputs: Tensor, bias: float) -> Tensor:
    """Inputs (N, d) with a last column of beta, (N, d + 1)."""
    return torch.cat([inputs, inputs.new_full((len(inputs), 1), bias)], dim=1)


def draw(shape: MlpShape, dtype: torch.dtype, *key: int) -> list[Tensor]:
    """Initial weights W_1, ..., W_L, each (outputs, inputs + 1).

    Uniform in +-1/sqrt(inputs), the bias's column included, as PyTorch's Linear draws them; a function of `key`.
    """
    generator = stream(*key)
    return [
        ((2 * torch.rand(after, before + 1, generator=generator, dtype=torch.float64) - 1) / math.sqrt(before)).to(
            dtype
        )
        for after, before in shape.layers
    ]


@dataclass(frozen=True, eq=False)
class Rotated:
    """Inputs in an orthonormal basis of their own span, in which gradient descent takes the same steps.

    Outside the span of the inputs the cost has no gradient: there the first layer only shrinks, by 1 - 2 eta lambda per
    step at learning rate eta. So descent needs as many input coordinates as there are independent examples. (Not so
    Adam, whose steps depend on the basis.)
    """

    inputs: Tensor
    """(N, r)."""
    basis: Tensor
    """(d, r)."""

    @classmethod
    def of(cls, inputs: Tensor) -> Rotated:
        left, values, right = torch.linalg.svd(inputs, full_matrices=False)
        kept = values > values[0] * max(inputs.shape) * torch.finfo(inputs.dtype).eps
        return cls(left[:, kept] * values[kept], right[kept].T)

    def first_layer(self, weights: Tensor) -> tuple[Tensor, float]:
        """W_1 (n, d) in these coordinates, (n, r), and the squared norm of what lies outside them."""
        inside = weights @ self.basis
        return inside, float((weights - inside @ self.basis.T).square().sum())
