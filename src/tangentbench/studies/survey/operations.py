"""Floating-point operations of one entry of an analytic kernel, counted from our recursion.

Per pair of positions: a ReLU's two duals are 32 operations (one square root, a polynomial of degree 8 and 14 others),
Theta's part of it one more; a convolution is two sliding sums and a scaling for each of Sigma and Theta, and Theta's
sum with Sigma; pooling one addition and one scaling. Work per image, rather than per pair, is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from tangentbench.kernels.layers import AveragePool, Convolution, GlobalAveragePool, Layer, Relu, Residual, walk

RELU_OPERATIONS = 32


def covariance_operations(layers: Sequence[Layer], height: int, width: int, channels: int, *, tangent: bool) -> float:
    """All offsets are needed: networks that flatten without pooling before would take less."""
    first = 2.0 * channels * float(height * width) ** 2
    return first + _through(layers, (height, width), 2 if tangent else 1)


def _through(layers: Sequence[Layer], size: tuple[int, int], maps: int) -> float:
    total = 0.0
    for layer in layers:
        pairs = float(size[0] * size[1]) ** 2
        if isinstance(layer, Relu):
            total += pairs * (RELU_OPERATIONS + maps - 1)
        elif isinstance(layer, Convolution):
            total += pairs * (maps * (2 * (layer.filter - 1) + 1) + maps - 1)
        elif isinstance(layer, AveragePool):
            total += pairs * maps * 2
        elif isinstance(layer, Residual):
            total += _through(layer.main, size, maps) + _through(layer.shortcut, size, maps)
        elif isinstance(layer, GlobalAveragePool):
            total += pairs * maps
            size = (1, 1)
        size = walk([layer], size, gaussian=True)[0]
        if isinstance(layer, Residual):
            # the sum of both branches, where they end
            total += maps * float(size[0] * size[1]) ** 2
    return total
