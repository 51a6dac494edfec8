"""Deep networks with five ways to keep their signal: fully connected ones, and the ResNets of CIFAR-10.

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

from tangentbench.errors import UnknownName
from tangentbench.theory.activations import norm_relu_scale, norm_relu_shift, selu_constants

KINK = -1.5975
"""c of NormReLU, printed in section 7."""
NORMALISATIONS = ("batch_norm", "layer_norm", "norm_relu", "selu", "fixup")
FANS = ("fan_out", "fan_in")
STAGES = 3
KERNEL = 3


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


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "batch_norm": nn.ReLU,
    "layer_norm": nn.ReLU,
    "norm_relu": NormReLU,
    "selu": SeLU,
    "fixup": nn.ReLU,
}
RELU_GAIN = {name: 1.0 if name in ("norm_relu", "selu") else 2.0 for name in NORMALISATIONS}
"""ReLU halves the second moment, normalised activations keep it."""


def check(normalisation: str, fan: str) -> None:
    if normalisation not in NORMALISATIONS:
        raise UnknownName("normalisation", normalisation, NORMALISATIONS)
    if fan not in FANS:
        raise UnknownName("fan", fan, FANS)


def fill_gaussian(weight: Tensor, gain: float, fan: str, generator: torch.Generator) -> None:
    """Variance gain / (kernel area * channels) for a weight of shape (out, in, ...)."""
    channels = weight.shape[0 if fan == "fan_out" else 1]
    area = weight[0, 0].numel()
    with torch.no_grad():
        weight.normal_(0.0, (gain / (area * channels)) ** 0.5, generator=generator)


class FullyConnected(nn.Module):
    """`depth` hidden layers of one width and a linear read-out, for inputs flattened to `inputs` numbers."""

    def __init__(
        self, inputs: int, width: int, depth: int, classes: int, normalisation: str, fan: str = "fan_out", seed: int = 0
    ) -> None:
        super().__init__()
        check(normalisation, fan)
        if normalisation == "fixup":
            raise ValueError("Fixup is an initialisation of residual networks, not of fully connected ones")
        self.normalisation = normalisation
        generator = torch.Generator().manual_seed(seed)
        normalises = normalisation in ("batch_norm", "layer_norm")
        norm = nn.BatchNorm1d if normalisation == "batch_norm" else nn.LayerNorm
        self.layers = nn.ModuleList()
        for layer in range(depth):
            linear = nn.Linear(inputs if layer == 0 else width, width, bias=not normalises)
            fill_gaussian(linear.weight, RELU_GAIN[normalisation], fan, generator)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
            middle = [norm(width)] if normalises else []
            self.layers.append(nn.Sequential(linear, *middle, ACTIVATIONS[normalisation]()))
        self.read_out = nn.Linear(width, classes)
        fill_gaussian(self.read_out.weight, 1.0, "fan_in", generator)
        nn.init.zeros_(self.read_out.bias)

    def representation(self, x: Tensor) -> Tensor:
        """The last hidden layer, shape (n, width)."""
        x = x.flatten(1)
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.read_out(self.representation(x))  # type: ignore[no-any-return]


class Scalar(nn.Module):
    """A learnt number that is added to the signal or multiplied with it: Fixup's biases and scales."""

    def __init__(self, start: float, multiplies: bool = False) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor([start]))
        self.multiplies = multiplies

    def forward(self, x: Tensor) -> Tensor:
        return x * self.value if self.multiplies else x + self.value


def channel_norm(normalisation: str, channels: int) -> nn.Module:
    """The normalisation layer of a convolution's output; for layer normalisation over all of an image's channels."""
    if normalisation == "batch_norm":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(1, channels) if normalisation == "layer_norm" else nn.Identity()


def convolution(entering: int, leaving: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(entering, leaving, KERNEL, stride, padding=1, bias=False)


class Block(nn.Module):
    """Two convolutions beside a shortcut without parameters (every second pixel, missing channels zero)."""

    def __init__(self, entering: int, leaving: int, stride: int, normalisation: str, skip_scale: float) -> None:
        super().__init__()
        self.stride, self.added, self.skip_scale = stride, leaving - entering, skip_scale
        self.first, self.second = convolution(entering, leaving, stride), convolution(leaving, leaving)
        activation = ACTIVATIONS[normalisation]
        if normalisation == "fixup":
            self.branch = nn.Sequential(
                Scalar(0.0),
                self.first,
                Scalar(0.0),
                activation(),
                Scalar(0.0),
                self.second,
                Scalar(1.0, multiplies=True),
                Scalar(0.0),
            )
        else:
            self.branch = nn.Sequential(
                self.first,
                channel_norm(normalisation, leaving),
                activation(),
                self.second,
                channel_norm(normalisation, leaving),
            )
        self.activation = activation()

    def forward(self, x: Tensor) -> Tensor:
        kept = x[:, :, :: self.stride, :: self.stride]
        kept = functional.pad(kept, (0, 0, 0, 0, 0, self.added))
        return self.activation((self.branch(x) + kept) * self.skip_scale)  # type: ignore[no-any-return]


class ResNet(nn.Module):
    """The ResNet of CIFAR-10: 3 stages of (depth - 2) / 6 blocks with channels, 2 channels, 4 channels.

    How skip connections go together with NormReLU is not said in the paper: `skip_scale` 1 takes the plain sum,
    sqrt(1/2) keeps its second moment within a stage.
    """

    def __init__(
        self,
        depth: int,
        channels: int,
        classes: int,
        normalisation: str,
        fan: str = "fan_out",
        skip_scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check(normalisation, fan)
        if depth < 8 or (depth - 2) % (2 * STAGES):
            raise ValueError(f"a CIFAR ResNet has 6 k + 2 layers (8, 14, 20, 32, 110, ...), not {depth}")
        blocks = (depth - 2) // (2 * STAGES)
        fixup = normalisation == "fixup"
        self.stem = nn.Sequential(
            convolution(3, channels),
            Scalar(0.0) if fixup else channel_norm(normalisation, channels),
            ACTIVATIONS[normalisation](),
        )
        self.blocks = nn.Sequential()
        entering = channels
        for stage in range(STAGES):
            for block in range(blocks):
                leaving = channels * 2**stage
                stride = 2 if stage and block == 0 else 1
                self.blocks.append(Block(entering, leaving, stride, normalisation, skip_scale))
                entering = leaving
        self.before_read_out: nn.Module = Scalar(0.0) if fixup else nn.Identity()
        self.read_out = nn.Linear(entering, classes)
        self.draw(normalisation, fan, torch.Generator().manual_seed(seed))

    def draw(self, normalisation: str, fan: str, generator: torch.Generator) -> None:
        """The paper's Gaussian weights; for Fixup a branch starts at zero and its first convolution is shrunk."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                fill_gaussian(module.weight, RELU_GAIN[normalisation], fan, generator)
        fill_gaussian(self.read_out.weight, 1.0, "fan_in", generator)
        nn.init.zeros_(self.read_out.bias)
        if normalisation != "fixup":
            return
        nn.init.zeros_(self.read_out.weight)
        for block in self.blocks:
            assert isinstance(block, Block)
            with torch.no_grad():
                # L^(-1/(2m-2)) with L branches of m = 2 layers
                block.first.weight.mul_(len(self.blocks) ** -0.5)
            nn.init.zeros_(block.second.weight)

    def representation(self, x: Tensor) -> Tensor:
        """The last hidden layer: channels averaged over the image, shape (n, 4 channels)."""
        return self.blocks(self.stem(x)).mean(dim=(2, 3))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        return self.read_out(self.before_read_out(self.representation(x)))  # type: ignore[no-any-return]


def parameter_count(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())
