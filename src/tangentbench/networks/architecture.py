"""Architectures as data, without torch: shapes, numbers of parameters and operations follow from the description.

`Architecture` is a list of layers, which networks/gated.py builds; `MemorisationSpec` describes the networks of
networks/memorisation.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from tangentbench.errors import UnknownName

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Dense:
    """A fully connected layer."""

    units: int


@dataclass(frozen=True)
class Conv:
    """A square convolution."""

    channels: int
    kernel: int = 3
    stride: int = 1
    padding: Literal["same", "valid"] = "same"

    def side(self, side: int) -> int:
        return -(-side // self.stride) if self.padding == "same" else (side - self.kernel) // self.stride + 1


@dataclass(frozen=True)
class Flatten:
    """Images to vectors."""


@dataclass(frozen=True)
class GlobalAveragePool:
    """The mean of each channel over the positions."""


Layer: TypeAlias = Dense | Conv | Flatten | GlobalAveragePool


@dataclass(frozen=True)
class Architecture:
    """Hidden layers, of which every Dense and Conv is gated, and a dense output layer above them."""

    input_shape: Shape
    """(height, width, channels) of an image or (d,) of a vector."""
    hidden: tuple[Layer, ...]
    outputs: int
    biases: bool = True

    def shapes_below(self) -> list[Shape]:
        """The shape that enters each hidden layer and, last, the output layer."""
        shapes = [self.input_shape]
        for layer in self.hidden:
            shapes.append(shape_above(layer, shapes[-1]))
        return shapes

    def weight_shapes(self) -> dict[str, Shape]:
        """Name and shape of every parameter of one run; layers count from 1, the output layer is the last."""
        shapes: dict[str, Shape] = {}
        for number, (layer, below) in enumerate(self._weighted_layers(), start=1):
            shapes[f"weight_{number}"] = _weight_shape(layer, below)
            if self.biases:
                shapes[f"bias_{number}"] = (layer.units if isinstance(layer, Dense) else layer.channels,)
        return shapes

    @property
    def parameter_count(self) -> int:
        """The weights and biases of one network."""
        return sum(math.prod(shape) for shape in self.weight_shapes().values())

    def multiply_adds(self, *kinds: type[Dense] | type[Conv]) -> int:
        """Multiply-adds of one example's forward pass, in all layers or in those of the given kinds."""
        return sum(
            math.prod(_weight_shape(layer, below)) * math.prod(shape_above(layer, below)[:-1])
            for layer, below in self._weighted_layers()
            if isinstance(layer, kinds or (Dense, Conv))
        )

    def _weighted_layers(self) -> list[tuple[Dense | Conv, Shape]]:
        """The layers with weights, the output layer last, each with the shape that enters it."""
        layers = zip((*self.hidden, Dense(self.outputs)), self.shapes_below(), strict=True)
        return [(layer, below) for layer, below in layers if isinstance(layer, Dense | Conv)]

    @property
    def gated_layers(self) -> int:
        return sum(isinstance(layer, Dense | Conv) for layer in self.hidden)

    def hidden_names(self) -> list[str]:
        """The parameters of the gated layers: all but the output layer's."""
        last = f"_{self.gated_layers + 1}"
        return [name for name in self.weight_shapes() if not name.endswith(last)]

    def dense_names(self) -> list[str]:
        """The parameters of the dense layers, the output layer's among them."""
        weighted = [layer for layer in self.hidden if isinstance(layer, Dense | Conv)]
        kinds = [isinstance(layer, Dense) for layer in weighted] + [True]
        return [name for name in self.weight_shapes() if kinds[int(name.rsplit("_", 1)[1]) - 1]]

    def padded(self, times: int) -> Architecture:
        """The architecture with every hidden layer `times` as wide (the value network of DGN^(m), Definition C.1)."""
        return replace(self, hidden=tuple(wider(layer, times) for layer in self.hidden))


def _weight_shape(layer: Dense | Conv, below: Shape) -> Shape:
    if isinstance(layer, Dense):
        return below[0], layer.units
    return layer.channels, below[2], layer.kernel, layer.kernel


def wider(layer: Layer, times: int) -> Layer:
    if isinstance(layer, Dense):
        return replace(layer, units=layer.units * times)
    if isinstance(layer, Conv):
        return replace(layer, channels=layer.channels * times)
    return layer


def shape_above(layer: Layer, below: Shape) -> Shape:
    match layer, below:
        case Dense(units), (_,):
            return (units,)
        case Conv(channels), (height, width, _):
            return layer.side(height), layer.side(width), channels
        case Flatten(), _:
            return (math.prod(below),)
        case GlobalAveragePool(), (_, _, channels):
            return (channels,)
        case _:
            raise ValueError(f"{layer} does not take inputs of shape {below}")


def fully_connected(input_shape: Shape, width: int, depth: int, outputs: int, *, biases: bool = True) -> Architecture:
    """FC: `depth` layers of weights, `depth` - 1 hidden ones of `width` units."""
    flatten = () if len(input_shape) == 1 else (Flatten(),)
    return Architecture(input_shape, (*flatten, *[Dense(width)] * (depth - 1)), outputs, biases)


def convolutional(
    input_shape: Shape,
    channels: Sequence[int],
    dense_units: Sequence[int],
    outputs: int,
    *,
    pooled: bool,
    kernel: int = 3,
    stride: int = 1,
    padding: Literal["same", "valid"] = "same",
) -> Architecture:
    """VCONV, and with `pooled` GCONV: convolutions, flattening or global average pooling, dense layers (appendix B)."""
    convolutions = [Conv(count, kernel, stride, padding) for count in channels]
    join = GlobalAveragePool() if pooled else Flatten()
    return Architecture(input_shape, (*convolutions, join, *(Dense(units) for units in dense_units)), outputs)


WeightDistribution: TypeAlias = Literal["bernoulli", "gaussian"]
"""`bernoulli` draws from {-sigma, +sigma} (Assumption 5.1), `gaussian` from N(0, sigma^2)."""


@dataclass(frozen=True)
class MemorisationSpec:
    """A memorisation network (Definition E.1): constant input, `depth` layers of weights, fixed random gates."""

    width: int
    depth: int
    examples: int
    gate_probability: float
    """mu: a gate is on with this probability."""
    weight_scale: float
    """sigma: the standard deviation of a weight."""
    weight_distribution: WeightDistribution = "bernoulli"

    def __post_init__(self) -> None:
        if self.depth < 2:
            raise ValueError(f"a memorisation network has at least 2 layers of weights, not {self.depth}")
        if self.weight_distribution not in get_args(WeightDistribution):
            raise UnknownName("weight distribution", self.weight_distribution, get_args(WeightDistribution))

    @property
    def middle_layers(self) -> int:
        """Layers of weights between hidden layers."""
        return self.depth - 2

    @property
    def hidden_values(self) -> int:
        """Hidden units of one example."""
        return (self.depth - 1) * self.width
