"""Which backend computes a network's kernel, and what that takes.

`plan` answers before anything is computed: the backend, the reason for it, and an estimate of processor time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tangentbench.device import on_gpu
from tangentbench.errors import UnknownName
from tangentbench.kernels._backends import native
from tangentbench.kernels._backends.contract import Values
from tangentbench.kernels._precision import FLOAT64_ORDERS, within
from tangentbench.kernels.network import (
    InvalidKernelInput,
    Layer,
    Size,
    checked,
    covariance_operations,
    mixes_positions,
    parts,
)

Backend = Literal["auto", "native", "triton", "torch", "neural-tangents"]
BACKENDS = ("auto", "native", "triton", "torch", "neural-tangents")
NANOSECONDS_PER_OPERATION = {"native": 0.011, "triton": 0.001, "torch": 0.44, "neural-tangents": 1.1}
"""Of covariance_operations, one core, float32: native from 0.47 ns per entry-layer, the others roughly."""
DOUBLE = 2.2
"""Times longer in float64."""


@dataclass(frozen=True)
class Plan:
    """What would compute a kernel, why, and for how long (seconds of one core, or of the GPU)."""

    backend: str
    reason: str
    processor_seconds: float


def plan(
    network: Sequence[Layer],
    first: Sequence[int],
    second: Sequence[int] | None = None,
    kind: str = "ntk",
    dtype: Any = "float32",
    backend: Backend = "auto",
) -> Plan:
    """The choice for images of shapes `first` and `second`, (n, height, width, channels); None is x1 with itself.

    Example:
        plan(myrtle(7), (1000, 32, 32, 3)).processor_seconds
    """
    count, height, width, channels = first
    layers = checked(network, height, width)
    trunk, gather, _ = parts(layers)
    chosen, reason = explained(backend, trunk, gather, (height, width))
    entries = count * (count + 1) / 2 if second is None else count * second[0]
    operations = covariance_operations(layers, height, width, channels, tangent=kind != "nngp")
    if gather.operation == "flatten" and not mixes_positions(trunk):
        operations /= height * width
    slower = DOUBLE if np.dtype(dtype) == np.float64 else 1.0
    return Plan(chosen, reason, entries * operations * NANOSECONDS_PER_OPERATION[chosen] * 1e-9 * slower)


def chosen_backend(backend: Any, trunk: Sequence[Layer], gather: Layer, size: Size) -> str:
    """The backend for these layers on maps of this size; one sentence where the one asked for cannot serve them."""
    chosen, reason = explained(backend, trunk, gather, size)
    if backend == "auto" and chosen == "torch" and not on_gpu() and not native.available():
        warnings.warn(
            f"the kernel runs in torch, many times slower: {reason} (install a C++ compiler and the package again)",
            RuntimeWarning,
            stacklevel=5,
        )
    return chosen


def explained(
    backend: Any, trunk: Sequence[Layer], gather: Layer, size: Size, gpu: bool | None = None
) -> tuple[str, str]:
    """The backend and the reason; `gpu` None: the process's device says."""
    if backend not in BACKENDS:
        raise UnknownName("backend", str(backend), BACKENDS)
    if backend != "auto":
        if why := refusal(backend, trunk, gather, size):
            raise InvalidKernelInput(f"the backend {backend} cannot serve this network ({why}): use backend='torch'")
        return backend, "it was asked for"
    if on_gpu() if gpu is None else gpu:
        why = refusal("triton", trunk, gather, size)
        return ("triton", "a plane stays in a GPU's registers") if why is None else ("torch", f"on the GPU, {why}")
    if not native.available():
        return "torch", str(native.describe()["reason"])
    why = refusal("native", trunk, gather, size)
    return ("native", "the C++ core serves every layer") if why is None else ("torch", why)


def refusal(backend: str, trunk: Sequence[Layer], gather: Layer, size: Size) -> str | None:
    """Why a backend cannot serve these layers, None where it can."""
    if backend == "native":
        if not native.available():
            return None  # asked for by name, it says itself what is missing
        if not within(trunk, size, FLOAT64_ORDERS):
            return "its variances leave the range of float64 on their way"
        return native.refusal((*trunk, gather), size)
    if backend == "triton":
        from tangentbench.kernels._backends import triton

        return triton.refusal(trunk, gather, size)
    return None


def sums_of(backend: str) -> Callable[..., Values]:
    """The function of the contract, imported when it is wanted."""
    if backend == "native":
        return native.sums
    if backend == "triton":
        from tangentbench.kernels._backends import triton

        return triton.sums
    if backend == "torch":
        from tangentbench.kernels._backends import torch

        return torch.sums
    from tangentbench.kernels._backends import neural_tangents

    return neural_tangents.sums
