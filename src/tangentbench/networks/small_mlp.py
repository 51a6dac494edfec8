"""Networks of one or two hidden layers without biases, trained together by the thousand (thesis A.14).

    f(x) = a V relu(W x / sqrt(d))                           one hidden layer
    f(x) = a V relu(A relu(W x / sqrt(d)) / sqrt(n))         two

All weights have variance 1 at first. In the maximal-update parametrisation a = 1/n and learning rates are n times as
large; in the tangent-kernel one a = 1/sqrt(n). R networks are one batch: each layer is a single batched product,
gradients are written out, and momentum and update are two passes over the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tangentbench.errors import UnknownName
from tangentbench.networks.mlp_shape import MlpShape
from tangentbench.networks.weight_distributions import WeightDistribution, draw_weights

_PARAMETRISATIONS: Mapping[str, Callable[[int], tuple[float, float]]] = {
    "maximal_update": lambda width: (1.0 / width, float(width)),
    "ntk": lambda width: (width**-0.5, 1.0),
}
"""From the width to the output's scale a and the factor of the learning rate."""
_relu_backward = torch.ops.aten.threshold_backward


@dataclass(frozen=True)
class Span:
    """Inputs (N, d) in an orthonormal basis of what they span: `inputs` (N, r), `basis` (d, r), r at most N and d.

    Gradient descent, also with momentum, moves the first layer inside the span only, and what lies outside never
    reaches a hidden unit. With ten images of 48 numbers the trained first layer shrinks to 10 rows, losses unchanged.
    """

    inputs: Tensor
    basis: Tensor

    @classmethod
    def of(cls, inputs: Tensor) -> Span:
        count, dimension = inputs.shape
        scaled = inputs.double() / dimension**0.5
        if count >= dimension:
            return cls(scaled.to(inputs.dtype), torch.eye(dimension, dtype=inputs.dtype))
        basis, coordinates = torch.linalg.qr(scaled.T)
        return cls(coordinates.T.contiguous().to(inputs.dtype), basis.to(inputs.dtype))

    def shape(self, width: int, hidden_layers: int, classes: int) -> MlpShape:
        """Of networks on these coordinates."""
        return MlpShape(hidden_layers + 1, width, self.inputs.shape[1], classes)


@dataclass
class ShallowNets:
    """R networks; training changes the weights in place.

    Shapes, with r input coordinates, width n and k classes: first (R, r, n), middle (R, n, n) or None, last (R, k, n).
    """

    first: Tensor
    middle: Tensor | None
    last: Tensor
    output_scale: float
    rate_scale: float

    def __post_init__(self) -> None:
        self.momenta = [torch.zeros_like(weights) for weights in self.weights]

    @property
    def weights(self) -> list[Tensor]:
        return [weights for weights in (self.first, self.middle, self.last) if weights is not None]

    @property
    def width(self) -> int:
        return self.last.shape[-1]

    def hidden(self, inputs: Tensor) -> list[Tensor]:
        """The hidden layers (R, B, n) on inputs (B, r), the same for all networks."""
        layers = [torch.relu_(torch.matmul(inputs, self.first))]
        if self.middle is not None:
            layers.append(torch.relu_(torch.bmm(layers[0], self.middle).mul_(self.width**-0.5)))
        return layers

    def outputs(self, inputs: Tensor) -> Tensor:
        """(R, B, k)."""
        return torch.bmm(self.hidden(inputs)[-1], self.last.mT).mul_(self.output_scale)

    def readout_norms(self) -> Tensor:
        """The Frobenius norm of V over sqrt(n), a scalar that has a limit, (R,)."""
        norms: Tensor = torch.linalg.vector_norm(self.last, dim=(1, 2))
        return norms.mul_(self.width**-0.5)

    def descend(self, inputs: Tensor, targets: Tensor, learning_rate: float, momentum: float) -> None:
        """One step on the mean cross-entropy with torch's momentum: m <- momentum m + g, w <- w - rate m.

        inputs (B, r), targets (B, k) one-hot.
        """
        layers = self.hidden(inputs)
        outputs = torch.bmm(layers[-1], self.last.mT).mul_(self.output_scale)
        errors = torch.softmax(outputs, dim=-1).sub_(targets).mul_(self.output_scale / len(inputs))
        arriving = _relu_backward(torch.bmm(errors, self.last), layers[-1], 0)
        self.momenta[-1].baddbmm_(errors.mT, layers[-1], beta=momentum)
        if self.middle is not None:
            arriving.mul_(self.width**-0.5)
            below = _relu_backward(torch.bmm(arriving, self.middle.mT), layers[0], 0)
            self.momenta[1].baddbmm_(layers[0].mT, arriving, beta=momentum)
            arriving = below
        self.momenta[0].baddbmm_(inputs.T.expand(len(arriving), -1, -1), arriving, beta=momentum)
        for weights, velocity in zip(self.weights, self.momenta, strict=True):
            weights.add_(velocity, alpha=-learning_rate * self.rate_scale)


def draw(
    span: Span,
    shape: MlpShape,
    runs: int,
    matrices: WeightDistribution,
    vectors: WeightDistribution,
    parametrisation: str,
    generator: torch.Generator,
) -> ShallowNets:
    """Untrained networks: the matrix between two hidden layers from `matrices`, all other weights from `vectors`."""
    if parametrisation not in _PARAMETRISATIONS:
        raise UnknownName("parametrisation", parametrisation, _PARAMETRISATIONS)
    if shape.depth not in (2, 3):
        raise ValueError(f"these networks have one or two hidden layers, not {shape.depth - 1}")
    output_scale, rate_scale = _PARAMETRISATIONS[parametrisation](shape.width)

    def drawn(distribution: WeightDistribution, rows: int) -> Tensor:
        return draw_weights(distribution, (runs, rows, shape.width), generator).to(span.inputs.dtype)

    first = drawn(vectors, len(span.basis))
    if span.basis.shape[0] != span.basis.shape[1]:
        first = torch.matmul(span.basis.T, first)
    last = drawn(vectors, shape.outputs)
    middle = drawn(matrices, shape.width) if shape.depth == 3 else None
    return ShallowNets(first, middle, last, output_scale, rate_scale)


def joined(parts: Sequence[ShallowNets]) -> ShallowNets:
    """Untrained networks of one architecture side by side, as one batch."""
    first = parts[0]
    if len(parts) == 1:
        return first
    matrices = [part.middle for part in parts if part.middle is not None]
    return ShallowNets(
        torch.cat([part.first for part in parts]),
        torch.cat(matrices) if matrices else None,
        torch.cat([part.last for part in parts]),
        first.output_scale,
        first.rate_scale,
    )


def bytes_per_network(shape: MlpShape) -> int:
    """Of weights and momenta in single precision."""
    return 8 * shape.parameters
