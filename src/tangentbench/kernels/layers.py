"""A convolutional network as a list of layers, and the networks of the thesis's section 2.9.

One description serves every backend of `layered_kernel`, the finite network (layer_list.py) and the count of its
operations. Weights are N(0, 1) times sqrt(gain / fan-in) (neural-tangents' parametrisation "ntk"), there are no biases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tangentbench.kernels.architecture import InvalidKernelInput, is_integer

HE_GAIN = 2.0
MYRTLE_STAGES = {5: (2, 1, 1), 7: (2, 2, 2), 10: (3, 3, 3)}
RESNET50_BLOCKS = (3, 4, 6, 3)
BOTTLENECK = 4
"""A bottleneck block has this many times more channels at its end than in its middle."""


@dataclass(frozen=True)
class Convolution:
    """`filter` x `filter`, padded with zeros so that the output has ceil(side / stride) positions per side."""

    filter: int = 3
    stride: int = 1
    channels: int = 64
    gain: float = HE_GAIN


@dataclass(frozen=True)
class Relu:
    pass


@dataclass(frozen=True)
class AveragePool:
    """Means of `side` x `side` windows. `padded`: with zeros as for a convolution, which count in the mean."""

    side: int = 2
    stride: int = 2
    padded: bool = False


@dataclass(frozen=True)
class GlobalAveragePool:
    pass


@dataclass(frozen=True)
class Flatten:
    pass


@dataclass(frozen=True)
class Dense:
    units: int = 1
    gain: float = 1.0


@dataclass(frozen=True)
class Residual:
    """The sum of two branches with independent weights."""

    main: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()


Layer: TypeAlias = Convolution | Relu | AveragePool | GlobalAveragePool | Flatten | Dense | Residual
Network: TypeAlias = tuple[Layer, ...]


def myrtle(depth: int = 5, channels: int = 64, outputs: int = 1) -> Network:
    """The Myrtle network with average pooling: three stages of 3x3 convolutions with ReLU, 2x2 pooling in between.

    depth counts the convolutions and the one fully connected layer: 5, 7 or 10. The last stage is averaged over all its
    positions, which at 32 x 32 pixels is what three more 2x2 poolings do.
    """
    if depth not in MYRTLE_STAGES:
        raise InvalidKernelInput(f"the Myrtle network has depth 5, 7 or 10, not {depth!r}")
    layers: list[Layer] = []
    for number, convolutions in enumerate(MYRTLE_STAGES[depth]):
        if number:
            layers.append(AveragePool())
        layers += [Convolution(channels=channels), Relu()] * convolutions
    return (*layers, GlobalAveragePool(), Dense(outputs))


def resnet50(
    blocks: Sequence[int] = RESNET50_BLOCKS, stem: str = "imagenet", width: int = 64, outputs: int = 1
) -> Network:
    """ResNet-50 without batch normalisation and with average pooling.

    ReLU stands in front of a branch's convolutions and not after the sum of branches: after a sum with what came out of
    a ReLU the pre-activations are not Gaussian and no kernel is analytic. `stem`: "imagenet" for the 7x7 convolution
    and the 3x3 pooling, both of stride 2, "cifar" for one 3x3 convolution.
    """
    if stem not in ("imagenet", "cifar"):
        raise InvalidKernelInput(f"the stem of a ResNet is imagenet or cifar, not {stem!r}")
    layers: list[Layer] = (
        [Convolution(7, 2, width), Relu(), AveragePool(3, 2, padded=True)]
        if stem == "imagenet"
        else [Convolution(3, 1, width), Relu()]
    )
    for stage, count in enumerate(blocks):
        middle = width * 2**stage
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            # the first block of all reads what a ReLU has already passed
            start: list[Layer] = [] if stage == block == 0 else [Relu()]
            main = (
                *start,
                Convolution(1, 1, middle),
                Relu(),
                Convolution(3, stride, middle),
                Relu(),
                Convolution(1, 1, BOTTLENECK * middle),
            )
            shortcut = (Convolution(1, stride, BOTTLENECK * middle),) if block == 0 else ()
            layers.append(Residual(main, shortcut))
    return (*layers, Relu(), GlobalAveragePool(), Dense(outputs))


def checked(network: Sequence[Layer], height: int, width: int) -> Network:
    """The network, if its kernel is analytic on images of this size; InvalidKernelInput with the reason otherwise."""
    layers = tuple(network)
    gathers = [number for number, layer in enumerate(layers) if isinstance(layer, GlobalAveragePool | Flatten)]
    if len(gathers) != 1:
        raise InvalidKernelInput(f"the network has {len(gathers)} layers that end the positions (one is needed)")
    head = layers[gathers[0] + 1 :]
    if not head or not isinstance(head[-1], Dense) or not all(isinstance(one, Dense | Relu) for one in head):
        raise InvalidKernelInput("after the positions have ended come Dense and Relu, and Dense is last")
    walk(layers, (height, width), gaussian=False)
    return layers


def walk(layers: Sequence[Layer], size: tuple[int, int], *, gaussian: bool) -> tuple[tuple[int, int], bool]:
    """Size of the maps behind the layers, and whether what is there is Gaussian (has passed weights last)."""
    for layer in layers:
        if isinstance(layer, Convolution):
            if not is_integer(layer.filter) or layer.filter < 1 or layer.filter % 2 == 0:
                raise InvalidKernelInput(f"filter is {layer.filter!r}: it is a side with a middle, so 1, 3, 5, ...")
            size, gaussian = (-(-size[0] // layer.stride), -(-size[1] // layer.stride)), True
        elif isinstance(layer, Relu):
            if not gaussian:
                raise InvalidKernelInput("a ReLU needs a convolution or a dense layer before it: put one there")
            gaussian = False
        elif isinstance(layer, AveragePool):
            size = tuple(pooled_size(one, layer) for one in size)  # type: ignore[assignment]
            if min(size) < 1:
                raise InvalidKernelInput(f"no position is left after pooling by {layer.side}: give larger images")
        elif isinstance(layer, Residual):
            ends = [walk(branch, size, gaussian=gaussian) for branch in (layer.main, layer.shortcut)]
            if ends[0][0] != ends[1][0]:
                raise InvalidKernelInput(f"branches of sizes {ends[0][0]} and {ends[1][0]} cannot be added")
            if not (ends[0][1] and ends[1][1]):
                raise InvalidKernelInput("both branches of a sum have to end in weights, or the sum is not Gaussian")
            size, gaussian = ends[0]
        elif isinstance(layer, Dense):
            gaussian = True
    return size, gaussian


def pooled_size(side: int, layer: AveragePool) -> int:
    return -(-side // layer.stride) if layer.padded else (side - layer.side) // layer.stride + 1


def padding(side: int, window: int, stride: int) -> tuple[int, int]:
    """Zeros before and after, for ceil(side / stride) windows (the convention called SAME)."""
    total = max((-(-side // stride) - 1) * stride + window - side, 0)
    return total // 2, total - total // 2


def flat(layers: Sequence[Layer]) -> Iterator[Layer]:
    """Every layer, those of branches included."""
    for layer in layers:
        if isinstance(layer, Residual):
            yield from flat(layer.main)
            yield from flat(layer.shortcut)
        else:
            yield layer


def forward_operations(layers: Sequence[Layer], height: int, width: int, channels: int) -> float:
    """Floating-point operations of the finite network on one image; a multiplication and an addition are two."""
    return _operations(layers, (height, width), channels)[0]


def _operations(layers: Sequence[Layer], size: tuple[int, int], channels: int) -> tuple[float, tuple[int, int], int]:
    total = 0.0
    for layer in layers:
        area = size[0] * size[1]
        if isinstance(layer, Convolution):
            size, _ = walk([layer], size, gaussian=False)
            total += 2.0 * size[0] * size[1] * layer.channels * channels * layer.filter**2
            channels = layer.channels
        elif isinstance(layer, AveragePool):
            size, _ = walk([layer], size, gaussian=False)
            total += float(size[0] * size[1] * channels * layer.side**2)
        elif isinstance(layer, Residual):
            main, after, wide = _operations(layer.main, size, channels)
            shortcut, _, _ = _operations(layer.shortcut, size, channels)
            size, channels = after, wide
            total += main + shortcut + size[0] * size[1] * channels
        elif isinstance(layer, Relu):
            total += float(area * channels)
        elif isinstance(layer, GlobalAveragePool):
            total += float(area * channels)
            size = (1, 1)
        elif isinstance(layer, Flatten):
            channels, size = channels * area, (1, 1)
        elif isinstance(layer, Dense):
            total += 2.0 * channels * layer.units
            channels = layer.units
    return total, size, channels


def weight_shapes(
    layers: Sequence[Layer], size: tuple[int, int], channels: int, path: str = "layer"
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The finite network's weights by name, for images of `size` = (height, width) with `channels` channels."""
    for number, layer in enumerate(layers):
        name = f"{path}_{number}"
        if isinstance(layer, Convolution):
            yield name, (layer.channels, channels, layer.filter, layer.filter)
        elif isinstance(layer, Dense):
            yield name, (layer.units, channels)
        elif isinstance(layer, Residual):
            yield from weight_shapes(layer.main, size, channels, f"{name}_main")
            yield from weight_shapes(layer.shortcut, size, channels, f"{name}_shortcut")
        channels = channels * size[0] * size[1] if isinstance(layer, Flatten) else channels_after(layer, channels)
        size = (1, 1) if isinstance(layer, Flatten | GlobalAveragePool) else walk([layer], size, gaussian=True)[0]


def channels_after(layer: Layer, channels: int) -> int:
    if isinstance(layer, Convolution):
        return layer.channels
    if isinstance(layer, Dense):
        return layer.units
    if isinstance(layer, Residual):
        for inner in layer.main:
            channels = channels_after(inner, channels)
    return channels
