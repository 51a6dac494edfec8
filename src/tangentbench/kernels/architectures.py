"""The networks of the CNTK paper and of the thesis's section 2.9, as layers."""

from __future__ import annotations

from collections.abc import Sequence

from tangentbench.kernels.network import (
    AveragePool,
    Convolution,
    Dense,
    Flatten,
    GlobalAveragePool,
    InvalidKernelInput,
    Layer,
    Network,
    Relu,
    Residual,
)

MYRTLE_STAGES = {5: (2, 1, 1), 7: (2, 2, 2), 10: (3, 3, 3)}
RESNET50_BLOCKS = (3, 4, 6, 3)
BOTTLENECK = 4
"""A bottleneck block has this many times more channels at its end than in its middle."""


def vanilla(depth: int, pooling: str = "gap", train_first_last: bool = True, filter: int = 3) -> Network:
    """The CNTK paper's network: depth - 1 convolutions with ReLU, and one fully connected layer.

    train_first_last: whether the first convolution and the last layer are trained; where they are not, their
        gradients are left out of the tangent kernel (section 4.2).
    """
    first = Convolution(filter, trained=train_first_last)
    hidden = [Relu(), Convolution(filter)] * (depth - 2)
    gather = GlobalAveragePool() if pooling == "gap" else Flatten()
    return (first, *hidden, Relu(), gather, Dense(trained=train_first_last))


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
