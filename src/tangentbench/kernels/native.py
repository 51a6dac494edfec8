"""The C++ core of the CNTK (src/native), loaded as a plain shared library.

The core is built with the package. In an editable install it lies beside this file; after a change of src/native

    pip install --no-build-isolation -e .

builds it again. Inside the container image the checkout's own core may be missing or built for another system; then
the image's serves, which TANGENTBENCH_CORE names. Where there is none `available()` is false and the torch recursion
serves.
"""

from __future__ import annotations

import ctypes
import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.kernels.architecture import CntkSpec, InvalidKernelInput

LIBRARY = Path(__file__).with_name("_cntk_core.so")
LIBRARY_VARIABLE = "TANGENTBENCH_CORE"
INSTRUCTION_SET_VARIABLE = "TANGENTBENCH_INSTRUCTION_SET"
OUT_OF_MEMORY, UNKNOWN_INSTRUCTION_SET = 1, 2


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


@dataclass(frozen=True)
class Sweep:
    """One pass through `convolutions[-1]` layers, with kernels taken behind the ReLU of each of `convolutions`.

    convolutions: growing numbers of 3 x 3 (or `filter` x `filter`) convolutions, each the trunk of a network.
    sines: for each, the sine below which an angle there is doubtful.
    tangent: whether Theta is wanted beside Sigma.
    """

    convolutions: tuple[int, ...]
    sines: tuple[float, ...]
    pooled: bool
    tangent: bool
    train_first: bool
    filter: int


class Swept(NamedTuple):
    """Behind each tap, float64 (taps, n1, n2), in the paper's scale.

    nngp: of the output. passed: Theta through the ReLU; with a trained last layer the tangent kernel is their sum.
    doubt: the share of `passed` that comes from doubtful angles.
    """

    nngp: np.ndarray
    passed: np.ndarray
    doubt: np.ndarray


@functools.cache
def load() -> ctypes.CDLL | str:
    """The library, or the reason why there is none."""
    library = opened(LIBRARY)
    if isinstance(library, str) and (elsewhere := os.environ.get(LIBRARY_VARIABLE)):
        found = opened(Path(elsewhere))
        library = found if isinstance(found, str) or same_request(found) else f"{elsewhere} is of another version"
    if isinstance(library, str):
        return library
    images = [ctypes.c_void_p, ctypes.c_int]
    for precision in ("float32", "float64"):
        rectangle = getattr(library, f"tangentbench_cntk_{precision}")
        rectangle.argtypes = [
            ctypes.POINTER(CntkRequest),
            ctypes.c_char_p,
            *images,
            *images,
            *[ctypes.c_void_p] * len(Swept._fields),
        ]
        rectangle.restype = ctypes.c_int
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


def sweep(x1: np.ndarray, x2: np.ndarray | None, wanted: Sweep, threads: int) -> Swept:
    """Kernels of every image of x1 with every image of x2 (with x1 itself if None) at several depths in one pass.

    x1, x2: (n, channels, height, width), contiguous, both float32 or both float64.
    """
    second = x1 if x2 is None else x2
    _, channels, height, width = x1.shape
    taps = len(wanted.convolutions)
    request = CntkRequest(
        channels,
        height,
        width,
        wanted.filter,
        wanted.pooled,
        wanted.tangent,
        wanted.train_first,
        x2 is None,
        threads,
        taps,
        (ctypes.c_int * taps)(*wanted.convolutions),
        (ctypes.c_double * taps)(*wanted.sines),
    )
    swept = Swept(*np.zeros((len(Swept._fields), taps, len(x1), len(second))))
    status = getattr(library(), f"tangentbench_cntk_{x1.dtype.name}")(
        ctypes.byref(request),
        chosen_instruction_set().encode(),
        x1.ctypes.data,
        len(x1),
        second.ctypes.data,
        len(second),
        *(values.ctypes.data for values in swept),
    )
    if status == OUT_OF_MEMORY:
        raise InvalidKernelInput(
            f"not enough memory for the tables of {len(x1)} and {len(second)} images of {height} x {width}: "
            "compute the kernel in smaller blocks"
        )
    if status == UNKNOWN_INSTRUCTION_SET:
        raise UnknownName("instruction set", chosen_instruction_set(), instruction_sets())
    return swept


def rectangle(
    x1: np.ndarray, x2: np.ndarray | None, architecture: CntkSpec, threads: int, doubtful_sine: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """One kernel of `sweep`, float64 (n1, n2), and the share of it that comes from doubtful angles.

    Of an "nngp" kernel, which does not depend on angles to first order, that share is zero.
    """
    tangent, trained = architecture.kind == "ntk", architecture.train_first_last
    pooled, depths = architecture.pooling == "gap", (architecture.convolutions,)
    swept = sweep(x1, x2, Sweep(depths, (doubtful_sine,), pooled, tangent, trained, architecture.filter), threads)
    nngp, passed, doubt = (values[0] for values in swept)
    if not tangent:
        return nngp, doubt
    if not trained:
        return passed, doubt
    whole = passed + nngp
    return whole, np.divide(doubt * passed, whole, out=np.zeros_like(whole), where=whole > 0)
