"""The exact convolutional neural tangent kernel and CNN-GP kernel of ReLU networks on images.

Conventions of "On exact computation with an infinitely wide neural net", section 4: `depth` counts the fully connected
layer, so there are depth - 1 convolutions (stride 1, zero padding, c_sigma = 2), and the kernel is that of the paper's
network, in its scale (oracle.py says how neural-tangents' scale differs). Sections 4.1 and 4.2 print one more sum over
patches in the last layer than the network they define has; appendix E and neural-tangents do without it, as here.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any, Literal, TypedDict, Unpack

import numpy as np

from tangentbench.device import on_gpu
from tangentbench.errors import UnknownName
from tangentbench.kernels import native, small_angles
from tangentbench.kernels.architecture import CntkSpec, InvalidKernelInput, Kind, Pooling
from tangentbench.progress import tqdm
from tangentbench.shapes import Images, KernelMatrix

Backend = Literal["auto", "native", "triton", "torch", "neural-tangents"]
BACKENDS = ("auto", "native", "triton", "torch", "neural-tangents")

BLOCK_LIMIT = 256
BLOCK_TABLE_BYTES = 128 << 20
BLOCK_ENTRY_LAYERS = 4e9  # a few seconds of work, the step of the progress bar


class Computing(TypedDict, total=False):
    """How a kernel is computed, which does not change what is computed; every option may be left out.

    dtype: of the computation and the result; None is float64 for float64 images and float32 for all others. float32
        is good to 1e-5: entries whose angles sink into its rounding, as where almost all patches look alike (raw
        photographs of the sky), are computed in double (small_angles.py). Only "neural-tangents" does without that.
    backend: "auto" is CUDA where there is a device ("triton", or "torch" for images over 64 x 64), else the native
        core, or torch where it was not built; "neural-tangents" is slow and independent.
    threads: of the native core; None is every core this process may use (OMP_NUM_THREADS if that is less).
    progress: whether a bar is shown for long computations.
    """

    dtype: Any
    backend: Backend
    threads: int | None
    progress: bool


def cntk(
    x1: Images,
    x2: Images | None = None,
    depth: int = 6,
    pooling: Pooling = "gap",
    kind: Kind = "ntk",
    train_first_last: bool | None = None,
    filter: int = 3,
    **computing: Unpack[Computing],
) -> KernelMatrix:
    """The kernel of every image of x1 with every image of x2, or of x1 with itself (then half is computed): (n1, n2).

    x1, x2: images (n, height, width, channels) of any size, in any real dtype.
    depth: convolutions plus the one fully connected layer.
    pooling: "gap" averages over all positions before the last layer (section 4.2), "flatten" does not (section 4.1).
    kind: "ntk" for the tangent kernel, "nngp" for the covariance of the network's output at initialisation.
    train_first_last: None is the paper's choice, False with "gap" and True with "flatten". With depth 2 and False
        nothing is trained and the tangent kernel is zero.
    filter: side of the square filters, odd.
    computing: any of `Computing`, by name: dtype, backend, threads, progress.

    Example:
        gram = cntk(images, depth=11)                       # CNTK-GAP with 10 convolutions
        cross = cntk(test, images, depth=4, pooling="flatten")
    """
    return _computed(x1, x2, CntkSpec.checked(depth, pooling, kind, train_first_last, filter), **computing)


def _computed(
    x1: np.ndarray,
    x2: np.ndarray | None,
    architecture: CntkSpec,
    *,
    dtype: Any = None,
    backend: Backend = "auto",
    threads: int | None = None,
    progress: bool = True,
) -> np.ndarray:
    precision = computing_type(x1, x2, dtype)
    first = checked_images(x1, "x1", precision)
    second = None if x2 is None else checked_images(x2, "x2", precision)
    if second is not None and first.shape[1:] != second.shape[1:]:
        raise InvalidKernelInput(
            f"images of x1 are {describe_shape(first)} and images of x2 {describe_shape(second)}: they must agree"
        )
    chosen = chosen_backend(backend, first.shape[2:])
    count = thread_count(threads)
    out = np.empty((len(first), len(first if second is None else second)), precision)
    with np.errstate(over="ignore"):
        for rows, columns, values in _blocks(first, second, architecture, chosen, count, progress):
            out[rows, columns] = values
            if second is None and rows != columns:
                out[columns, rows] = values.T
    if not np.isfinite(out).all():
        raise InvalidKernelInput(
            f"the kernel leaves the range of {precision.name}: scale the images down or ask for dtype='float64'"
        )
    return out


def computing_type(x1: Any, x2: Any, dtype: Any) -> np.dtype[Any]:
    if dtype is None:
        double = any(getattr(x, "dtype", None) == np.float64 for x in (x1, x2))
        return np.dtype(np.float64 if double else np.float32)
    try:
        wanted: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise UnknownName("dtype", str(dtype), ["float32", "float64"]) from error
    if wanted not in (np.float32, np.float64):
        raise UnknownName("dtype", wanted.name, ["float32", "float64"])
    return wanted


def checked_images(images: Any, name: str, dtype: np.dtype[Any]) -> np.ndarray:
    """Images as (n, channels, height, width), contiguous, finite."""
    array = np.asarray(images)
    if array.dtype.kind not in "fiub":
        raise InvalidKernelInput(f"{name} holds {array.dtype}: images are real numbers")
    if array.ndim != 4 or 0 in array.shape[1:]:
        raise InvalidKernelInput(
            f"{name} has shape {array.shape}: images are (n, height, width, channels); "
            "grey ones need a last axis of length 1"
        )
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(array.transpose(0, 3, 1, 2), dtype=dtype)
    bad = ~np.isfinite(array).all(axis=(1, 2, 3))
    if bad.any():
        raise InvalidKernelInput(
            f"{name} has {int(bad.sum())} images with pixels that are NaN or infinite in {dtype.name}, "
            f"the first is number {int(bad.argmax())}: fix them or leave them out"
        )
    return array


def describe_shape(images: np.ndarray) -> str:
    _, channels, height, width = images.shape
    return f"{height} x {width} with {channels} channel{'s' if channels != 1 else ''}"


def chosen_backend(backend: str, size: tuple[int, ...] = (32, 32), gpu: bool | None = None) -> str:
    """The backend that computes images of this height and width, on a GPU or not (None: the process's device says)."""
    if backend not in BACKENDS:
        raise UnknownName("backend", str(backend), BACKENDS)
    if backend != "auto":
        return backend
    if on_gpu() if gpu is None else gpu:
        from tangentbench.kernels import recursion_triton

        return "triton" if recursion_triton.installed() and recursion_triton.fits(*size) else "torch"
    if native.available():
        return "native"
    warnings.warn(
        f"the CNTK runs in torch, many times slower: {native.describe()['reason']} "
        "(install a C++ compiler and the package again)",
        RuntimeWarning,
        stacklevel=3,
    )
    return "torch"


def thread_count(threads: int | None) -> int:
    if threads is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores
    if threads < 1:
        raise InvalidKernelInput(f"threads is {threads}: it is at least 1")
    return int(threads)


def _blocks(
    first: np.ndarray,
    second: np.ndarray | None,
    architecture: CntkSpec,
    backend: str,
    threads: int,
    progress: bool,
) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Blocks of the matrix, one by one: memory does not grow with the number of images, and the bar moves."""
    symmetric = second is None
    other = first if second is None else second
    rows, columns = _block_shape(first, architecture, symmetric)
    pieces = [
        (slice(i, min(i + rows, len(first))), slice(j, min(j + columns, len(other))))
        for i in range(0, len(first), rows)
        for j in range(i if symmetric else 0, len(other), columns)
    ]
    total = sum((r.stop - r.start) * (c.stop - c.start) for r, c in pieces)
    hidden = not progress or len(pieces) == 1 or not sys.stderr.isatty()
    with tqdm(total=total, unit="entry", unit_scale=True, desc="CNTK", disable=hidden) as bar:
        for row, column in pieces:
            diagonal = symmetric and row == column
            yield row, column, _block(first[row], None if diagonal else other[column], architecture, backend, threads)
            bar.update((row.stop - row.start) * (column.stop - column.start))


def _block_shape(images: np.ndarray, architecture: CntkSpec, symmetric: bool) -> tuple[int, int]:
    area = images.shape[2] * images.shape[3]
    tables = 4 * area * architecture.convolutions * images.itemsize
    side = min(BLOCK_LIMIT, max(16, BLOCK_TABLE_BYTES // tables // 16 * 16))
    entry = architecture.convolutions * (area * area if architecture.pooling == "gap" else area)
    work = max(1, int(BLOCK_ENTRY_LAYERS // entry))
    if symmetric:
        square = min(side, max(16, int(work**0.5) // 16 * 16))
        return square, square
    columns = min(side, max(16, int(work**0.5) // 16 * 16))
    return min(side, max(1, work // columns)), columns


def _block(
    first: np.ndarray, second: np.ndarray | None, architecture: CntkSpec, backend: str, threads: int
) -> np.ndarray:
    if backend == "neural-tangents":
        from tangentbench.kernels import oracle

        return oracle.rectangle(first, first if second is None else second, architecture)
    compute = rectangle_of(backend, architecture, threads)
    if backend == "native" and second is not None and lanes_are_better_used_by(first, second):
        return small_angles.rectangle(second, first, architecture, compute).T
    return small_angles.rectangle(first, second, architecture, compute)


def rectangle_of(backend: str, architecture: CntkSpec, threads: int) -> small_angles.Rectangle:
    if backend == "native":
        return lambda x1, x2, sine: native.rectangle(x1, x2, architecture, threads, sine)
    if backend == "triton":
        from tangentbench.kernels import recursion_triton

        return lambda x1, x2, sine: recursion_triton.rectangle(x1, x2, architecture, sine)
    from tangentbench.kernels import recursion_torch

    return lambda x1, x2, sine: recursion_torch.rectangle(x1, x2, architecture, sine)


def lanes_are_better_used_by(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether fewer lanes stay empty when the first images are the second ones."""
    return wasted_lanes(second) * len(first) > wasted_lanes(first) * len(second)


def wasted_lanes(images: np.ndarray) -> int:
    """Lanes that stay empty when these are the second images."""
    return -len(images) % native.lanes(images.dtype)
