"""The C++ core for networks given as layers (src/native/recursion/layered.hpp): what it is asked, and its scale."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tangentbench.errors import UnknownName
from tangentbench.kernels import native
from tangentbench.kernels.architecture import InvalidKernelInput
from tangentbench.kernels.layers import AveragePool, Convolution, GlobalAveragePool, Layer, Relu

CONVOLUTION, RELU, POOL = 0, 1, 2
UNFIT_NETWORK = 3
SUPPORTED = (Convolution, Relu, AveragePool)


class LayeredRequest(ctypes.Structure):
    """The struct of the same name in src/native/recursion/layered.cpp."""

    _fields_ = [
        (name, ctypes.c_int) for name in ("channels", "height", "width", "tangent", "global", "steps", "threads")
    ]


class LayeredStep(ctypes.Structure):
    """LayerStep in src/native/recursion/layered_core.hpp."""

    _fields_ = [(name, ctypes.c_int) for name in ("kind", "size", "exponent")]


@functools.cache
def functions() -> dict[str, Any]:
    library = native.library()
    images = [ctypes.c_void_p, ctypes.c_int]
    found = {}
    for precision in ("float32", "float64"):
        function = getattr(library, f"tangentbench_layered_{precision}", None)
        if function is None:
            raise native.NativeCoreMissing("it was built before networks could be given as layers")
        function.argtypes = [
            ctypes.POINTER(LayeredRequest),
            ctypes.POINTER(LayeredStep),
            ctypes.c_char_p,
            *images,
            *images,
            ctypes.c_void_p,
            ctypes.c_long,
            ctypes.c_void_p,
        ]
        function.restype = ctypes.c_int
        found[precision] = function
    return found


def fits(layers: Sequence[Layer]) -> bool:
    """Whether the core can run these layers (those before the positions end)."""
    return all(
        isinstance(layer, SUPPORTED)
        and (not isinstance(layer, Convolution) or layer.stride == 1)
        and (not isinstance(layer, AveragePool) or (layer.stride == layer.side and not layer.padded))
        for layer in layers
    )


def step_of(layer: Layer) -> tuple[LayeredStep, float]:
    """The core's step, and the factor by which Sigma and Theta have to be multiplied for it.

    The core sums where the layer averages, and doubles what a ReLU gives; a power of two near the inverse of the
    growth keeps many layers in range, exactly.
    """
    if isinstance(layer, Convolution):
        exponent = -round(2 * math.log2(layer.filter))
        return LayeredStep(CONVOLUTION, layer.filter, exponent), layer.gain / layer.filter**2 / 2.0**exponent
    if isinstance(layer, AveragePool):
        exponent = -round(4 * math.log2(layer.side))
        return LayeredStep(POOL, layer.side, exponent), 1 / layer.side**4 / 2.0**exponent
    return LayeredStep(RELU, 0, 0), 0.5


def pairs(
    x1: np.ndarray,
    x2: np.ndarray | None,
    chosen: np.ndarray,
    layers: Sequence[Layer],
    gather: Layer,
    *,
    tangent: bool,
    threads: int,
) -> np.ndarray:
    """Sigma and Theta behind `gather` of the pairs (rows of x1, rows of x2 or x1), float64 (count, 2).

    x1, x2: (n, channels, height, width), contiguous, both float32 or both float64; chosen: integers (count, 2).
    """
    _, channels, height, width = x1.shape
    steps, factors = zip(*(step_of(layer) for layer in layers), strict=True) if layers else ((), ())
    everywhere = isinstance(gather, GlobalAveragePool)
    request = LayeredRequest(channels, height, width, tangent, everywhere, len(steps), threads)
    wanted = np.ascontiguousarray(chosen, dtype=np.int32)
    out = np.empty((len(wanted), 2))
    status = functions()[x1.dtype.name](
        ctypes.byref(request),
        (LayeredStep * max(len(steps), 1))(*steps),
        native.chosen_instruction_set().encode(),
        x1.ctypes.data,
        len(x1),
        None if x2 is None else x2.ctypes.data,
        0 if x2 is None else len(x2),
        wanted.ctypes.data,
        len(wanted),
        out.ctypes.data,
    )
    if status == native.OUT_OF_MEMORY:
        raise InvalidKernelInput(
            f"not enough memory for {threads} threads on images of {height} x {width}: use fewer threads"
        )
    if status == native.UNKNOWN_INSTRUCTION_SET:
        raise UnknownName("instruction set", native.chosen_instruction_set(), native.instruction_sets())
    if status == UNFIT_NETWORK:
        raise InvalidKernelInput(f"the native core cannot hold {len(steps)} layers: use backend='torch'")
    last = positions(layers, height, width)
    mean = 1 / last**2 if everywhere else 1 / last
    return np.asarray(out * (math.prod(factors) * mean / channels))


def positions(layers: Sequence[Layer], height: int, width: int) -> int:
    for layer in layers:
        if isinstance(layer, AveragePool):
            height, width = height // layer.side, width // layer.side
    return height * width
