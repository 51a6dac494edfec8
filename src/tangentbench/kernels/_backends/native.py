"""The C++ core of the CNTK (src/native), loaded as a plain shared library.

The core is built with the package. In an editable install it lies in kernels/; after a change of src/native

    pip install --no-build-isolation -e .

builds it again. Inside the container image the checkout's own core may be missing or built for another system; then
the image's serves, which TANGENTBENCH_CORE names. Where there is none `available()` is false and the torch recursion
serves.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.kernels._backends.contract import Values
from tangentbench.kernels.network import AveragePool, Convolution, InvalidKernelInput, Layer, Size, size_behind

LIBRARY = Path(__file__).parents[1] / "_cntk_core.so"
LIBRARY_VARIABLE = "TANGENTBENCH_CORE"
INSTRUCTION_SET_VARIABLE = "TANGENTBENCH_INSTRUCTION_SET"
OUT_OF_MEMORY, UNKNOWN_INSTRUCTION_SET, UNFIT_NETWORK = 1, 2, 3
CONVOLUTION, RELU, POOL = 0, 1, 2
CHAIN = ("convolution", "activation")
"""What a chain repeats; the core takes kernels behind each."""


class NativeCoreMissing(TangentbenchError):
    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the native core of the CNTK is not here ({reason}): install a C++ compiler and run "
            "`pip install --no-build-isolation -e .` again, or use backend='torch'"
        )


class CntkRequest(ctypes.Structure):
    """`Request` in src/native/recursion/cntk.cpp."""

    _fields_ = [
        *(
            (name, ctypes.c_int)
            for name in (
                "channels",
                "height",
                "width",
                "filter",
                "pooled",
                "tangent",
                "train_first",
                "symmetric",
                "threads",
                "taps",
            )
        ),
        ("tap_layers", ctypes.POINTER(ctypes.c_int)),
        ("tap_sines", ctypes.POINTER(ctypes.c_double)),
    ]


class LayeredRequest(ctypes.Structure):
    """The struct of the same name in src/native/recursion/layered.cpp."""

    _fields_ = [
        (name, ctypes.c_int) for name in ("channels", "height", "width", "tangent", "global", "steps", "threads")
    ]


class LayeredStep(ctypes.Structure):
    """LayerStep in src/native/recursion/layered_core.hpp."""

    _fields_ = [(name, ctypes.c_int) for name in ("kind", "size", "exponent")]


@functools.cache
def load() -> ctypes.CDLL | str:
    """The library, or the reason why there is none."""
    library = opened(LIBRARY)
    if isinstance(library, str) and (elsewhere := os.environ.get(LIBRARY_VARIABLE)):
        found = opened(Path(elsewhere))
        library = found if isinstance(found, str) or same_request(found) else f"{elsewhere} is of another version"
    if isinstance(library, str):
        return library
    images: list[Any] = [ctypes.c_void_p, ctypes.c_int]
    for precision in ("float32", "float64"):
        rectangle = getattr(library, f"tangentbench_cntk_{precision}")
        rectangle.argtypes = [
            ctypes.POINTER(CntkRequest),
            ctypes.c_char_p,
            *images,
            *images,
            *[ctypes.c_void_p] * len(fields(Values)),
        ]
        rectangle.restype = ctypes.c_int
    library.tangentbench_layered_float64.argtypes = [
        ctypes.POINTER(LayeredRequest),
        ctypes.POINTER(LayeredStep),
        ctypes.c_char_p,
        *images,
        *images,
        ctypes.c_void_p,
        ctypes.c_long,
        ctypes.c_void_p,
    ]
    library.tangentbench_instruction_set.argtypes = [ctypes.c_int]
    library.tangentbench_instruction_set.restype = ctypes.c_char_p
    library.tangentbench_lanes.argtypes = [ctypes.c_char_p, ctypes.c_int]
    library.tangentbench_peak_gflops.argtypes = [ctypes.c_char_p, ctypes.c_double]
    library.tangentbench_peak_gflops.restype = ctypes.c_double
    return library


def opened(file: Path) -> ctypes.CDLL | str:
    try:
        return ctypes.CDLL(os.fspath(file))
    except OSError as error:
        return str(error) if file.exists() else f"{file.name} was not built"


def same_request(library: ctypes.CDLL) -> bool:
    """Whether a core that was not built with this checkout understands its requests."""
    size = getattr(library, "tangentbench_request_bytes", None)
    return size is not None and size() == ctypes.sizeof(CntkRequest)


def available() -> bool:
    return not isinstance(load(), str)


def library() -> ctypes.CDLL:
    loaded = load()
    if isinstance(loaded, str):
        raise NativeCoreMissing(loaded)
    return loaded


def instruction_sets() -> list[str]:
    """What this machine can run, best first."""
    names: list[str] = []
    while name := library().tangentbench_instruction_set(len(names)):
        names.append(name.decode())
    return names


def chosen_instruction_set() -> str:
    """The best one, or that named by TANGENTBENCH_INSTRUCTION_SET."""
    known = instruction_sets()
    name = os.environ.get(INSTRUCTION_SET_VARIABLE) or known[0]
    if name not in known:
        raise UnknownName("instruction set", name, known, f"see {INSTRUCTION_SET_VARIABLE}")
    return name


def lanes(dtype: np.dtype[Any]) -> int:
    """How many second images are computed at a time."""
    return int(library().tangentbench_lanes(chosen_instruction_set().encode(), dtype.itemsize))


def peak_gflops(seconds: float = 0.2) -> float:
    """Measured float32 fused multiply-adds of one core, each counted as two operations."""
    return float(library().tangentbench_peak_gflops(chosen_instruction_set().encode(), seconds))


def describe() -> dict[str, Any]:
    """For `tangentbench doctor`."""
    loaded = load()
    if isinstance(loaded, str):
        return {"available": False, "reason": loaded}
    return {
        "available": True,
        "library": loaded._name,
        "instruction_set": chosen_instruction_set(),
        "instruction_sets": instruction_sets(),
        "threading": "OpenMP" if loaded.tangentbench_uses_openmp() else "std::thread",
        "lanes_float32": lanes(np.dtype(np.float32)),
        "lanes_float64": lanes(np.dtype(np.float64)),
    }


def refusal(layers: Sequence[Layer], size: Size) -> str | None:
    """Why the core cannot run these layers, None where it can."""
    for layer in layers:
        about = layer.described()
        if layer.inner():
            return "the core has no residual branches"
        if about.get("stride", 1) != about.get("window", 1) or about.get("padded"):
            return "the core has no strided convolutions and no overlapping pooling"
        if layer.bias_variance or getattr(layer, "slope", 0.0) != 0.0:
            return "the core has no biases and no activation but ReLU"
    if not any(layer.operation == "convolution" for layer in layers):
        return "the core begins with a convolution"
    if not all(layer.trained for layer in later_convolutions(layers)):
        return "the core can freeze the first convolution only"
    return (
        None if chain_of(layers) or convolutions(layers)[0].trained else "the core freezes layers without pooling only"
    )


def convolutions(layers: Sequence[Layer]) -> list[Convolution]:
    return [layer for layer in layers if isinstance(layer, Convolution)]


def later_convolutions(layers: Sequence[Layer]) -> list[Convolution]:
    return convolutions(layers)[1:]


def chain_of(layers: Sequence[Layer]) -> bool:
    """Whether these are convolutions of one size with a ReLU after each, for which the core is fastest."""
    trunk = [layer.operation for layer in layers if not layer.ends_positions]
    return trunk == [*CHAIN] * (len(trunk) // len(CHAIN)) and len({c.filter for c in convolutions(layers)}) == 1


def sums(
    x1: np.ndarray,
    x2: np.ndarray | None,
    trunk: Sequence[Layer],
    gather: Layer,
    taps: Sequence[int],
    *,
    threads: int = 1,
    doubtful_sine: float = 0.0,
) -> Values:
    """As the contract says: one pass for all taps of a chain, else one for each tap."""
    if chain_of(trunk[: max(taps, default=0)]) and all(tap and tap % len(CHAIN) == 0 for tap in taps):
        return chain(x1, x2, trunk, gather, taps, threads, doubtful_sine)
    each = [layered(x1, x2, trunk[:tap], gather, threads, doubtful_sine) for tap in taps]
    return Values(*(np.stack(one) for one in zip(*each, strict=True)))


def chain(
    x1: np.ndarray,
    x2: np.ndarray | None,
    trunk: Sequence[Layer],
    gather: Layer,
    taps: Sequence[int],
    threads: int,
    doubtful_sine: float,
) -> Values:
    """Convolutions with a ReLU after each, all taps in one pass."""
    second = x1 if x2 is None else x2
    _, channels, height, width = x1.shape
    depths = sorted({tap // len(CHAIN) for tap in taps})
    layers, pooled = convolutions(trunk)[: depths[-1]], gather.operation == "global_average_pool"
    request = CntkRequest(
        channels,
        height,
        width,
        layers[0].filter,
        pooled,
        True,
        layers[0].trained,
        x2 is None,
        threads,
        len(depths),
        (ctypes.c_int * len(depths))(*depths),
        (ctypes.c_double * len(depths))(*[doubtful_sine] * len(depths)),
    )
    found = Values(*np.zeros((len(fields(Values)), len(depths), len(x1), len(second))))
    status = getattr(library(), f"tangentbench_cntk_{x1.dtype.name}")(
        ctypes.byref(request),
        chosen_instruction_set().encode(),
        x1.ctypes.data,
        len(x1),
        second.ctypes.data,
        len(second),
        *(getattr(found, field.name).ctypes.data for field in fields(found)),
    )
    refuse(status, x1, second)
    # the core doubles what a ReLU gives and sums over channels and, where it does not pool, positions
    gains = np.cumprod([layer.weight_variance / 2 for layer in layers]) / channels / (1 if pooled else height * width)
    scales = gains[np.asarray(depths) - 1][:, None, None]
    order = [depths.index(tap // len(CHAIN)) for tap in taps]
    return Values((found.nngp * scales)[order], (found.ntk * scales)[order], found.doubt[order])


def layered(
    x1: np.ndarray, x2: np.ndarray | None, trunk: Sequence[Layer], gather: Layer, threads: int, doubtful_sine: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Any order of layers: NNGP, NTK and doubt, (n1, n2). In double: it does not doubt its angles."""
    first, second = x1.astype(np.float64, copy=False), None if x2 is None else x2.astype(np.float64, copy=False)
    count = len(first if second is None else second)
    whole = np.triu_indices(len(first)) if second is None else np.indices((len(first), count)).reshape(2, -1)
    chosen = np.asarray(whole)
    wanted = np.ascontiguousarray(chosen.T, dtype=np.int32)
    _, channels, height, width = first.shape
    steps, factors = zip(*(step_of(layer) for layer in trunk), strict=True) if trunk else ((), ())
    everywhere = gather.operation == "global_average_pool"
    request = LayeredRequest(channels, height, width, True, everywhere, len(steps), threads)
    both = np.empty((len(wanted), 2))
    status = library().tangentbench_layered_float64(
        ctypes.byref(request),
        (LayeredStep * max(len(steps), 1))(*steps),
        chosen_instruction_set().encode(),
        first.ctypes.data,
        len(first),
        None if second is None else second.ctypes.data,
        0 if second is None else len(second),
        wanted.ctypes.data,
        ctypes.c_long(len(wanted)),
        both.ctypes.data,
    )
    refuse(status, first, first if second is None else second)
    rows, columns = size_behind(trunk, (height, width))
    positions = rows * columns
    both *= math.prod(factors) / (positions**2 if everywhere else positions) / channels
    out = np.zeros((2, len(first), count))
    out[:, chosen[0], chosen[1]] = both.T
    if second is None:
        out[:, chosen[1], chosen[0]] = both.T
    return out[0], out[1], np.zeros_like(out[0])


def step_of(layer: Layer) -> tuple[LayeredStep, float]:
    """The core's step, and the factor by which Sigma and Theta have to be multiplied for it.

    The core sums where the layer averages, and doubles what a ReLU gives; a power of two near the inverse of the
    growth keeps many layers in range, exactly.
    """
    if isinstance(layer, Convolution):
        exponent = -round(2 * math.log2(layer.filter))
        return LayeredStep(CONVOLUTION, layer.filter, exponent), layer.weight_variance / layer.filter**2 / 2.0**exponent
    if isinstance(layer, AveragePool):
        exponent = -round(4 * math.log2(layer.window))
        return LayeredStep(POOL, layer.window, exponent), 1 / layer.window**4 / 2.0**exponent
    return LayeredStep(RELU, 0, 0), 0.5


def refuse(status: int, first: np.ndarray, second: np.ndarray) -> None:
    if status == OUT_OF_MEMORY:
        raise InvalidKernelInput(
            f"not enough memory for {len(first)} and {len(second)} images of {first.shape[2]} x {first.shape[3]}: "
            "use fewer threads, or compute the kernel in smaller blocks"
        )
    if status == UNKNOWN_INSTRUCTION_SET:
        raise UnknownName("instruction set", chosen_instruction_set(), instruction_sets())
    if status == UNFIT_NETWORK:
        raise InvalidKernelInput("the native core cannot hold so many layers: use backend='torch'")
