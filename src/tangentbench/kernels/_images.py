"""Images as the kernels take them: checked, channels first, and each brought to the size of 1 where that may be."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from tangentbench.kernels.network import InvalidKernelInput, is_integer

FEW_CHANNELS = (1, 3)
LARGEST_ORDER = 1 << 14


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
    if array.shape[1] in FEW_CHANNELS and array.shape[2] == array.shape[3] >= 8:
        warnings.warn(
            f"{name} has shape {array.shape}, which looks like channels first: images are (n, height, width, channels)",
            UserWarning,
            stacklevel=5,
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


def thread_count(threads: Any) -> int:
    if threads is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores
    if not is_integer(threads) or threads < 1:
        raise InvalidKernelInput(f"threads is {threads!r}: it is an integer of at least 1")
    return int(threads)


def scaled_to_one(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Images whose largest pixel lies between 1/2 and 1, and the binary orders (n,) that were taken out."""
    _, orders = np.frexp(np.abs(images).max(axis=(1, 2, 3), initial=0.0))
    return np.ldexp(images, -orders[:, None, None, None]), orders


def restored(values: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Kernels (..., n1, n2) of images whose binary orders were taken out; an error where float64 cannot hold them."""
    if not (first.any() or second.any()):
        return values
    with np.errstate(over="ignore", under="ignore"):
        out = np.ldexp(values, first[:, None] + second[None, :])
    small = (np.abs(out) < np.finfo(np.float64).tiny) & (values != 0)
    if small.any() or not np.isfinite(out).all():
        raise InvalidKernelInput("the kernel leaves the range of float64: bring the images nearer to 1")
    return np.asarray(out)
