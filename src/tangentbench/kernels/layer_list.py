"""The finite network of a list of layers, as a function of its weights (parametrisation "ntk", no biases)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from tangentbench.kernels.layers import (
    AveragePool,
    Convolution,
    Dense,
    Flatten,
    GlobalAveragePool,
    Layer,
    Relu,
    padding,
    weight_shapes,
)

Weights = dict[str, Tensor]


def initial_weights(network: Sequence[Layer], shape: tuple[int, int, int], seed: int) -> Weights:
    """N(0, 1) weights for images of `shape` = (height, width, channels)."""
    generator = torch.Generator().manual_seed(seed)
    sizes = dict(weight_shapes(network, shape[:2], shape[2]))
    return {name: torch.randn(size, generator=generator) for name, size in sizes.items()}


def forward(network: Sequence[Layer], weights: Mapping[str, Tensor], images: Tensor) -> Tensor:
    """Outputs (n, units) for images (n, channels, height, width)."""
    return through(network, weights, images, "layer")


def through(layers: Sequence[Layer], weights: Mapping[str, Tensor], x: Tensor, path: str) -> Tensor:
    for number, layer in enumerate(layers):
        name = f"{path}_{number}"
        if isinstance(layer, Convolution):
            weight = weights[name]
            scale = math.sqrt(layer.gain / math.prod(weight.shape[1:]))
            x = scale * F.conv2d(padded(x, layer.filter, layer.stride), weight, stride=layer.stride)
        elif isinstance(layer, Relu):
            x = torch.relu(x)
        elif isinstance(layer, AveragePool):
            x = F.avg_pool2d(padded(x, layer.side, layer.stride) if layer.padded else x, layer.side, layer.stride)
        elif isinstance(layer, GlobalAveragePool):
            x = x.mean(dim=(-2, -1))
        elif isinstance(layer, Flatten):
            x = x.flatten(1)
        elif isinstance(layer, Dense):
            x = math.sqrt(layer.gain / weights[name].shape[1]) * x @ weights[name].mT
        else:
            main = through(layer.main, weights, x, f"{name}_main")
            x = main + through(layer.shortcut, weights, x, f"{name}_shortcut")
    return x


def padded(x: Tensor, window: int, stride: int) -> Tensor:
    top, bottom = padding(x.shape[-2], window, stride)
    left, right = padding(x.shape[-1], window, stride)
    return F.pad(x, (left, right, top, bottom)) if any((top, bottom, left, right)) else x
