"""The same kernels from neural-tangents: slow, independent, the oracle of the tests and the rival of the benchmarks.

How the scales relate. neural-tangents averages where the paper sums: its first convolution divides by the channels and
multiplies by W_std^2 / q^2, flatten followed by Dense averages over positions. With W_std = sqrt(2) in every
convolution, W_std = 1 in the last layer, no biases and parameterization "ntk",

    paper's kernel = channels                  * neural-tangents   (global average pooling)
    paper's kernel = channels * height * width * neural-tangents   (flatten)

because both are homogeneous in Sigma^(0) and all later layers carry the same factor c_sigma / q^2 = 2 / q^2.
Layers that are not trained: Theta is set to zero after the first convolution, and the last layer's own part of the
tangent kernel, which is the NNGP kernel of the output, is taken off at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tangentbench.kernels.architecture import CntkSpec
from tangentbench.kernels.neural_tangents_compat import stax

PAIRS_AT_ONCE = {"gap": 4, "flatten": 4096}


def kernel_function(architecture: CntkSpec) -> Callable[[Any, Any], Any]:
    """A function of two image batches (n, height, width, channels) that gives the kernel in the paper's scale."""
    side = (architecture.filter, architecture.filter)
    convolution = stax.Conv(1, side, padding="SAME", W_std=math.sqrt(2), b_std=None, parameterization="ntk")
    _, _, first = convolution
    hidden = [layer for _ in range(architecture.convolutions - 1) for layer in (stax.Relu(), convolution)]
    gather = stax.GlobalAvgPool() if architecture.pooling == "gap" else stax.Flatten()
    _, _, rest = stax.serial(*hidden, stax.Relu(), gather, stax.Dense(1, W_std=1, b_std=None, parameterization="ntk"))

    def kernel(x1: Any, x2: Any) -> Any:
        _, height, width, channels = x1.shape
        scale = channels * (1 if architecture.pooling == "gap" else height * width)
        start = first(x1, x2, diagonal_spatial=architecture.pooling == "flatten")
        if architecture.kind == "nngp":
            return scale * rest(start, get="nngp")
        if architecture.train_first_last:
            return scale * rest(start, get="ntk")
        end = rest(start.replace(ntk=jnp.zeros_like(start.ntk)), get=("ntk", "nngp"))
        return scale * (end.ntk - end.nngp)

    return kernel


def rectangle(x1: np.ndarray, x2: np.ndarray, architecture: CntkSpec) -> np.ndarray:
    """Kernel of every image of x1 with every image of x2: float64, (n1, n2); shapes as in native.rectangle."""
    double = x1.dtype == np.float64
    with jax.enable_x64(double):
        kernel = jax.jit(kernel_function(architecture))
        first, second = (jnp.asarray(x.transpose(0, 2, 3, 1)) for x in (x1, x2))
        columns = min(len(second), max(1, math.isqrt(PAIRS_AT_ONCE[architecture.pooling])))
        rows = min(len(first), max(1, PAIRS_AT_ONCE[architecture.pooling] // columns))
        out = np.empty((len(x1), len(x2)))
        for i in range(0, len(x1), rows):
            for j in range(0, len(x2), columns):
                out[i : i + rows, j : j + columns] = kernel(first[i : i + rows], second[j : j + columns])
    return out
