"""Networks given as layers in neural-tangents: the oracle of the tests and the rival of the benchmarks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tangentbench.kernels.layers import (
    AveragePool,
    Convolution,
    Dense,
    Flatten,
    GlobalAveragePool,
    Layer,
    Relu,
    Residual,
)
from tangentbench.kernels.neural_tangents_compat import stax


def stax_layer(layer: Layer) -> Any:
    if isinstance(layer, Convolution):
        window, step = (layer.filter, layer.filter), (layer.stride, layer.stride)
        return stax.Conv(
            layer.channels, window, step, "SAME", W_std=math.sqrt(layer.gain), b_std=None, parameterization="ntk"
        )
    if isinstance(layer, AveragePool):
        padding = "SAME" if layer.padded else "VALID"
        return stax.AvgPool((layer.side, layer.side), (layer.stride, layer.stride), padding)
    if isinstance(layer, Dense):
        return stax.Dense(layer.units, W_std=math.sqrt(layer.gain), b_std=None, parameterization="ntk")
    if isinstance(layer, Residual):
        branches = [
            stax.serial(*map(stax_layer, branch)) if branch else stax.Identity() for branch in branches_of(layer)
        ]
        return stax.serial(stax.FanOut(2), stax.parallel(*branches), stax.FanInSum())
    return {Relu: stax.Relu, GlobalAveragePool: stax.GlobalAvgPool, Flatten: stax.Flatten}[type(layer)]()


def branches_of(layer: Residual) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    return layer.main, layer.shortcut


def kernel_function(network: Sequence[Layer], kind: str) -> Callable[[Any, Any], Any]:
    """A function of two image batches (n, height, width, channels); not compiled."""
    with warnings.catch_warnings():
        # neural-tangents cannot see that branches have weights of their own; layers.checked has
        warnings.filterwarnings("ignore", message=".*FanIn.*")
        _, _, kernel = stax.serial(*map(stax_layer, network))

    def values(x1: Any, x2: Any) -> Any:
        return kernel(x1, x2, kind)

    return values


def rectangle(x1: np.ndarray, x2: np.ndarray, network: Sequence[Layer], kind: str, batch: int = 2) -> np.ndarray:
    """Kernel of every image of x1 with every image of x2, float64 (n1, n2), in blocks of `batch` x `batch`.

    x1, x2: (n, channels, height, width), both float32 or both float64.
    """
    out = np.empty((len(x1), len(x2)))
    with jax.enable_x64(x1.dtype == np.float64), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*FanIn.*")
        kernel = jax.jit(kernel_function(network, kind))
        first, second = (jnp.asarray(x.transpose(0, 2, 3, 1)) for x in (x1, x2))
        for i in range(0, len(x1), batch):
            for j in range(0, len(x2), batch):
                out[i : i + batch, j : j + batch] = kernel(first[i : i + batch], second[j : j + batch])
    return out
