"""Deep networks with five ways to preserve the norm of their signal: fully connected ones, and the ResNets of CIFAR-10.

    batch_norm    batch normalisation before every activation, ReLU
    layer_norm    layer normalisation before every activation, ReLU
    norm_relu     no normalisation layers, NormReLU (section 7 of the conditioning paper)
    selu          no normalisation layers, SeLU
    fixup         ResNets only: no normalisation layers, ReLU, scalar biases and Fixup's initialisation

Weights are Gaussian with variance 1/(kernel area * channels), counting outgoing channels as the paper prints it
(`fan_out`) or incoming ones (`fan_in`), times two where the activation is ReLU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from tangentbench.networks.deep_architecture import (
    KERNEL_SIZE,
    NORMALISATIONS,
    STAGES,
    DeepArchitecture,
    Fan,
    Normalisation,
    blocks_per_stage,
)
from tangentbench.theory.activations import norm_relu_scale, norm_relu_shift, selu_constants

KINK = -1.5975
"""c of NormReLU, printed in section 7."""


class NormReLU(nn.Module):
    """lambda(c) (max(x - c, 0) + b(c)), equation (4)."""

    def __init__(self, c: float = KINK) -> None:
        super().__init__()
        self.c, self.shift, self.scale = c, norm_relu_shift(c), norm_relu_scale(c)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * (functional.relu(x - self.c) + self.shift)


class SeLU(nn.Module):
    """SeLU with the constants that its two equations give."""

    def __init__(self) -> None:
        super().__init__()
        constants = selu_constants()
        self.scale, self.alpha = constants.scale, constants.alpha

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * functional.elu(x, self.alpha)


ACTIVATIONS: dict[Normalisation, Callable[[], nn.Module]] = {
    "batch_norm": nn.ReLU,
    "layer_norm": nn.ReLU,
    "norm_relu": NormReLU,
    "selu": SeLU,
    "fixup": nn.ReLU,
}
_GAIN = {name: 1.0 if name in ("norm_relu", "selu") else 2.0 for name in NORMALISATIONS}
"""ReLU halves the second moment, normalised activations keep it."""


def _fill_gaussian(weight: Tensor, gain: float, fan: Fan, generator: torch.Generator) -> None:
    """Draw weights of variance gain / (kernel area * channels) for a weight of shape (out, in, ...)."""
    channels = weight.shape[0 if fan == "fan_out" else 1]
    area = weight[0, 0].numel()
    with torch.no_grad():
        weight.normal_(0.0, (gain / (area * channels)) ** 0.5, generator=generator)


class FullyConnected(nn.Module):
    """`depth` hidden layers of equal width and a linear read-out, on flattened images."""

    def __init__(self, architecture: DeepArchitecture, seed: int = 0) -> None:
        super().__init__()
        self.normalisation = architecture.normalisation
        generator = torch.Generator().manual_seed(seed)
        normalises = architecture.has_normalisation_layers
        norm = nn.BatchNorm1d if self.normalisation == "batch_norm" else nn.LayerNorm
        self.layers = nn.ModuleList()
        for layer in architecture.hidden_layers():
            linear = nn.Linear(layer.inputs, layer.outputs, bias=not normalises)
            _fill_gaussian(linear.weight, _GAIN[self.normalisation], architecture.fan, generator)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
            middle = [norm(layer.outputs)] if normalises else []
            self.layers.append(nn.Sequential(linear, *middle, ACTIVATIONS[self.normalisation]()))
        self.read_out = nn.Linear(architecture.width, architecture.classes)
        _fill_gaussian(self.read_out.weight, 1.0, "fan_in", generator)
        nn.init.zeros_(self.read_out.bias)

    def representation(self, x: Tensor) -> Tensor:
        """The last hidden layer, shape (n, width)."""
        x = x.flatten(1)
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.read_out(self.representation(x))  # type: ignore[no-any-return]


class _Scalar(nn.Module):
    """A learned number that is added to the signal or multiplied with it: Fixup's biases and scales."""

    def __init__(self, start: float, multiplies: bool = False) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor([start]))
        self.multiplies = multiplies

    def forward(self, x: Tensor) -> Tensor:
        return x * self.value if self.multiplies else x + self.value


def _channel_norm(normalisation: Normalisation, channels: int) -> nn.Module:
    """The normalisation layer after a convolution; layer normalisation is over all channels of an image."""
    if normalisation == "batch_norm":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(1, channels) if normalisation == "layer_norm" else nn.Identity()


def _convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, KERNEL_SIZE, stride, padding=1, bias=False)


class _Block(nn.Module):
    """Two convolutions beside a shortcut without parameters (every second pixel, missing channels zero)."""

    def __init__(self, inputs: int, outputs: int, stride: int, normalisation: Normalisation, skip_scale: float) -> None:
        super().__init__()
        self.stride, self.added, self.skip_scale = stride, outputs - inputs, skip_scale
        self.first, self.second = _convolution(inputs, outputs, stride), _convolution(outputs, outputs)
        activation = ACTIVATIONS[normalisation]
        if normalisation == "fixup":
            self.branch = nn.Sequential(
                _Scalar(0.0),
                self.first,
                _Scalar(0.0),
                activation(),
                _Scalar(0.0),
                self.second,
                _Scalar(1.0, multiplies=True),
                _Scalar(0.0),
            )
        else:
            self.branch = nn.Sequential(
                self.first,
                _channel_norm(normalisation, outputs),
                activation(),
                self.second,
                _channel_norm(normalisation, outputs),
            )
        self.activation = activation()

    def forward(self, x: Tensor) -> Tensor:
        kept = x[:, :, :: self.stride, :: self.stride]
        kept = functional.pad(kept, (0, 0, 0, 0, 0, self.added))
        return self.activation((self.branch(x) + kept) * self.skip_scale)  # type: ignore[no-any-return]


class ResNet(nn.Module):
    """The ResNet of CIFAR-10: 3 stages of (depth - 2) / 6 blocks with channels, 2 channels, 4 channels.

    The paper does not say how skip connections are combined with NormReLU: `skip_scale` 1 takes the plain sum,
    sqrt(1/2) keeps its second moment within a stage.
    """

    def __init__(self, architecture: DeepArchitecture, seed: int = 0) -> None:
        super().__init__()
        normalisation, channels = architecture.normalisation, architecture.width
        fixup = normalisation == "fixup"
        self.stem = nn.Sequential(
            _convolution(architecture.image_shape[0], channels),
            _Scalar(0.0) if fixup else _channel_norm(normalisation, channels),
            ACTIVATIONS[normalisation](),
        )
        self.blocks = nn.Sequential()
        inputs = channels
        for stage in range(STAGES):
            for block in range(blocks_per_stage(architecture.depth)):
                outputs = channels * 2**stage
                stride = 2 if stage and block == 0 else 1
                self.blocks.append(_Block(inputs, outputs, stride, normalisation, architecture.skip_scale))
                inputs = outputs
        self.before_read_out: nn.Module = _Scalar(0.0) if fixup else nn.Identity()
        self.read_out = nn.Linear(inputs, architecture.classes)
        self._draw(architecture, torch.Generator().manual_seed(seed))

    def _draw(self, architecture: DeepArchitecture, generator: torch.Generator) -> None:
        """Gaussian weights as the paper prints; with Fixup branches start at zero and first convolutions are scaled."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                _fill_gaussian(module.weight, _GAIN[architecture.normalisation], architecture.fan, generator)
        _fill_gaussian(self.read_out.weight, 1.0, "fan_in", generator)
        nn.init.zeros_(self.read_out.bias)
        if architecture.normalisation != "fixup":
            return
        nn.init.zeros_(self.read_out.weight)
        for block in self.blocks:
            assert isinstance(block, _Block)
            with torch.no_grad():
                # L^(-1/(2m-2)) with L branches of m = 2 layers
                block.first.weight.mul_(len(self.blocks) ** -0.5)
            nn.init.zeros_(block.second.weight)

    def representation(self, x: Tensor) -> Tensor:
        """The last hidden layer: channels averaged over the image, shape (n, 4 channels)."""
        return self.blocks(self.stem(x)).mean(dim=(2, 3))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        return self.read_out(self.before_read_out(self.representation(x)))  # type: ignore[no-any-return]


def build(architecture: DeepArchitecture, seed: int) -> FullyConnected | ResNet:
    """The network that `architecture` describes, with initial weights drawn from `seed`."""
    return (FullyConnected if architecture.kind == "fc" else ResNet)(architecture, seed)


def parameter_count(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())
