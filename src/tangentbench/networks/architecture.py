"""Feed-forward architectures as data: the list of layers that gated networks (gated.py) are built from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

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
        number = 0
        for layer, below in zip((*self.hidden, Dense(self.outputs)), self.shapes_below(), strict=True):
            if not isinstance(layer, Dense | Conv):
                continue
            number += 1
            if isinstance(layer, Dense):
                shapes[f"weight_{number}"] = (below[0], layer.units)
                above = layer.units
            else:
                shapes[f"weight_{number}"] = (layer.channels, below[2], layer.kernel, layer.kernel)
                above = layer.channels
            if self.biases:
                shapes[f"bias_{number}"] = (above,)
        return shapes

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
            size = 1
            for length in below:
                size *= length
            return (size,)
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
    biases: bool = True,
) -> Architecture:
    """VCONV, and with `pooled` GCONV: convolutions, flattening or global average pooling, dense layers (appendix B)."""
    convolutions = [Conv(count, kernel, stride, padding) for count in channels]
    join = GlobalAveragePool() if pooled else Flatten()
    return Architecture(input_shape, (*convolutions, join, *(Dense(units) for units in dense_units)), outputs, biases)
