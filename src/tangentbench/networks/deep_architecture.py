"""The deep networks of the conditioning paper as data: their layers, and how many operations and parameters these have.

Light: nothing here builds a tensor. `resnets.py` builds the networks described here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tangentbench.errors import UnknownName

Kind = Literal["fc", "resnet"]
Normalisation = Literal["batch_norm", "layer_norm", "norm_relu", "selu", "fixup"]
Fan = Literal["fan_out", "fan_in"]
"""Which channels the variance of initial weights counts: outgoing or incoming ones."""

KINDS: tuple[Kind, ...] = get_args(Kind)
NORMALISATIONS: tuple[Normalisation, ...] = get_args(Normalisation)
FANS: tuple[Fan, ...] = get_args(Fan)

COLOURS = 3
KERNEL_SIZE = 3
STAGES = 3
CONVOLUTIONS_PER_BLOCK = 2
SCALARS_PER_FIXUP_BLOCK = 5


@dataclass(frozen=True)
class WeightLayer:
    """A dense layer, or a convolution whose output has `positions` pixels; biases are not part of it."""

    inputs: int
    outputs: int
    positions: int = 1
    kernel_size: int = 1

    @property
    def weights(self) -> int:
        return self.kernel_size**2 * self.inputs * self.outputs

    @property
    def multiplications(self) -> int:
        """For one image, forward."""
        return self.positions * self.weights

    @property
    def values(self) -> int:
        """The numbers in the layer's output for one image."""
        return self.positions * self.outputs

    @property
    def convolves(self) -> bool:
        return self.kernel_size > 1


@dataclass(frozen=True)
class DeepArchitecture:
    """A fully connected network (`fc`) with `depth` hidden layers, or the ResNet of CIFAR-10 with `depth` layers.

    `width` is the number of units per layer, or of channels in a ResNet's first stage.
    """

    kind: Kind
    depth: int
    width: int
    normalisation: Normalisation
    image_shape: tuple[int, int, int]
    """(channels, height, width)"""
    classes: int
    fan: Fan = "fan_out"
    skip_scale: float = 1.0

    def __post_init__(self) -> None:
        for what, name, known in (
            ("architecture", self.kind, KINDS),
            ("normalisation", self.normalisation, NORMALISATIONS),
            ("fan", self.fan, FANS),
        ):
            if name not in known:
                raise UnknownName(what, name, known)
        if self.kind == "fc" and self.normalisation == "fixup":
            raise ValueError("Fixup is an initialisation of residual networks, not of fully connected ones")
        if self.kind == "resnet":
            blocks_per_stage(self.depth)
            if self.image_shape[0] != COLOURS:
                raise ValueError(f"a CIFAR ResNet takes images of {COLOURS} channels, not {self.image_shape[0]}")

    @property
    def name(self) -> str:
        """`fc_32` or `resnet_110`."""
        return f"{self.kind}_{self.depth}"

    @property
    def inputs(self) -> int:
        """Numbers per image."""
        channels, height, width = self.image_shape
        return channels * height * width

    @property
    def has_normalisation_layers(self) -> bool:
        return self.normalisation in ("batch_norm", "layer_norm")

    def hidden_layers(self) -> list[WeightLayer]:
        """All layers of weights but the read-out, in order."""
        if self.kind == "fc":
            return [WeightLayer(self.inputs if layer == 0 else self.width, self.width) for layer in range(self.depth)]
        channels, height, width = self.image_shape
        layers = [WeightLayer(channels, self.width, height * width, KERNEL_SIZE)]
        for stage in range(STAGES):
            outputs, positions = self.width * 2**stage, _halved(height, stage) * _halved(width, stage)
            for _ in range(CONVOLUTIONS_PER_BLOCK * blocks_per_stage(self.depth)):
                layers.append(WeightLayer(layers[-1].outputs, outputs, positions, KERNEL_SIZE))
        return layers

    def read_out(self) -> WeightLayer:
        return WeightLayer(self.hidden_layers()[-1].outputs, self.classes)

    @property
    def hidden_values(self) -> int:
        """The numbers that pass an activation, per image."""
        return sum(layer.values for layer in self.hidden_layers())

    @property
    def parameters(self) -> int:
        """Weights, biases, and what normalisation layers or Fixup learn besides."""
        hidden, read_out = self.hidden_layers(), self.read_out()
        weights = sum(layer.weights for layer in (*hidden, read_out))
        channels = sum(layer.outputs for layer in hidden)
        if self.has_normalisation_layers:
            others = 2 * channels
        elif self.normalisation == "fixup":
            others = SCALARS_PER_FIXUP_BLOCK * STAGES * blocks_per_stage(self.depth) + 2
        else:
            others = channels if self.kind == "fc" else 0
        return weights + others + self.classes


def blocks_per_stage(depth: int) -> int:
    """Blocks in each of the three stages of a ResNet with `depth` layers; ValueError where there is no such ResNet."""
    per_block = CONVOLUTIONS_PER_BLOCK * STAGES
    if depth < per_block + 2 or (depth - 2) % per_block:
        raise ValueError(f"a CIFAR ResNet has 6 k + 2 layers (8, 14, 20, 32, 110, ...), not {depth}")
    return (depth - 2) // per_block


def _halved(side: int, times: int) -> int:
    """A side after so many convolutions of stride 2."""
    for _ in range(times):
        side = -(-side // 2)
    return side
