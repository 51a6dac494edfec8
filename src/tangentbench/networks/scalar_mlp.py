"""Multilayer perceptrons with a scalar output and hidden layers of one width, many runs as one program.

Subclasses say what enters the first layer and which nonlinearity a layer applies; gradient descent, the tangent kernel
and the saved state are the same for all. Each takes one batched product per layer over the runs, without autograd.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


class ScalarMlp(ABC):
    """A batch of R runs on n examples; training changes the weights in place.

    first (R, ...)          the weights of the first layer
    middle (L-1, R, w, w)   those between hidden layers, each mapping z(l) to q(l+1) from the right
    last (R, w)             those of the read-out
    targets (R, n)
    """

    first: Tensor
    middle: Tensor
    last: Tensor
    targets: Tensor

    @abstractmethod
    def forward(self) -> tuple[list[Tensor], Callable[[int], Tensor]]:
        """z(1), ..., z(L), each (R, n, w), and the derivative of a layer's z by its q, layers counted from 0."""

    @abstractmethod
    def first_gradient(self, delta: Tensor) -> Tensor:
        """The gradient of `first` where delta (R, n, w) is that of q(1)."""

    @abstractmethod
    def first_gram(self, overlap: Tensor) -> Tensor:
        """`overlap` (R, n, n) times the inner products of what goes into the first layer."""

    def hidden(self) -> list[Tensor]:
        """z(1), ..., z(L), each (R, n, w)."""
        return self.forward()[0]

    def read_out(self, top: Tensor) -> Tensor:
        """The outputs (R, n) of the top hidden layer."""
        return torch.bmm(top, self.last[:, :, None])[:, :, 0]

    def outputs(self) -> Tensor:
        """Shape (R, n)."""
        return self.read_out(self.hidden()[-1])

    def tangent_kernel(self) -> Tensor:
        """The exact NTK K(s, s') = <d y(s), d y(s')> of each run, shape (R, n, n).

        A layer's weights contribute the product of two Gram matrices: of its inputs z(l-1), and of the derivatives
        delta(l) = d y / d q(l). No Jacobian is ever formed.
        """
        hidden, slope = self.forward()
        kernel = gram(hidden[-1])
        delta = self.last[:, None, :] * slope(len(self.middle))
        for layer in reversed(range(len(self.middle))):
            kernel += gram(hidden[layer]).mul_(gram(delta))
            delta = torch.bmm(delta, self.middle[layer].mT).mul_(slope(layer))
        return kernel.add_(self.first_gram(gram(delta)))

    def descend(self, learning_rates: Tensor) -> Tensor:
        """One step of full-batch gradient descent on 1/2 sum_s e(s)^2; returns e before it, shape (R, n).

        `learning_rates` (R,) holds one per run. Each layer is updated as soon as the derivative has passed through it,
        so no gradient is stored.
        """
        hidden, slope = self.forward()
        errors = self.read_out(hidden[-1]).sub_(self.targets)
        scaled = errors * learning_rates[:, None]
        delta = (scaled[:, :, None] * self.last[:, None, :]).mul_(slope(len(self.middle)))
        self.last -= torch.bmm(scaled[:, None, :], hidden[-1])[:, 0, :]
        for layer in reversed(range(len(self.middle))):
            below = torch.bmm(delta, self.middle[layer].mT).mul_(slope(layer))
            self.middle[layer].baddbmm_(hidden[layer].mT, delta, alpha=-1.0)
            delta = below
        self.first -= self.first_gradient(delta)
        return errors

    def state(self) -> dict[str, np.ndarray]:
        """What training changes, as arrays; everything else is drawn again from the seed."""
        return {name: getattr(self, name).cpu().numpy() for name in ("first", "middle", "last")}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        for name, values in state.items():
            getattr(self, name).copy_(torch.from_numpy(values))


def gram(rows: Tensor) -> Tensor:
    """The inner products of the rows: (..., n, w) to (..., n, n)."""
    return rows @ rows.mT
