"""The recursion of section 4 as one Triton kernel, for CUDA: a program carries one plane through all layers.

A plane of circular offset (d, e) pairs position (r, c) of the first image with ((r + d) mod height, (c + e) mod width)
of the second. It holds the planes of the offsets (d, e), (d - height, e), (d, e - width) and (d - height, e - width)
side by side, so that every plane is full: height x width planes of height x width entries, where the planes of plain
offsets would be three quarters empty. A box sum stays within one plain offset because a neighbour counts only where
both images go on. The plane never leaves the program's registers.

`TRITON_INTERPRET=1` runs the kernel on the CPU, slowly, for tests.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import os
from typing import Any

import mpmath
import numpy as np
import torch

from tangentbench.device import current, on_gpu
from tangentbench.errors import TangentbenchError
from tangentbench.kernels.architecture import CntkSpec
from tangentbench.kernels.recursion_torch import inverse_root, normalised, variances
from tangentbench.kernels.small_angles import share

INTERPRET_VARIABLE = "TRITON_INTERPRET"
LARGEST_AREA = 64 * 64
"""Positions of a plane, rounded up to powers of two, that the registers of one program hold."""
POSITIONS_A_WARP = 128
MOST_WARPS = 16
PARTIAL_BYTES = 256 << 20
MOST_PAIRS = 65535
"""Of one launch: the limit of a grid's second axis."""
DEGREE = {torch.float32: 9, torch.float64: 20}
SNAP_ULPS = 16


class TritonUnusable(TangentbenchError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"the CNTK cannot run in Triton: {reason}; use backend='torch' or 'native'")


def installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def interpreted() -> bool:
    return os.environ.get(INTERPRET_VARIABLE, "0") == "1"


def fits(height: int, width: int) -> bool:
    return power_of_two(height) * power_of_two(width) <= LARGEST_AREA


def power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


def rectangle(
    x1: np.ndarray,
    x2: np.ndarray | None,
    architecture: CntkSpec,
    doubtful_sine: float = 0.0,
    device: str | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """As recursion_torch.rectangle."""
    place = usable_device(device)
    if not fits(*x1.shape[2:]):
        raise TritonUnusable(f"images of {x1.shape[2]} x {x1.shape[3]} do not fit into a program's registers")
    first = Side.of(x1, architecture, place)
    second = first if x2 is None else Side.of(x2, architecture, place)
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    rows, columns = np.triu_indices(n1) if x2 is None else np.indices((n1, n2)).reshape(2, -1)
    sums, doubts = np.concatenate(
        [
            pair_sums(first, second, rows[start:end], columns[start:end], architecture, doubtful_sine)
            for start, end in launches(len(rows), x1.shape[2] * x1.shape[3], architecture)
        ],
        axis=1,
    )
    shares = share(doubts, sums)
    area = x1.shape[2] * x1.shape[3]
    sums *= (1 / area**2 if architecture.pooling == "gap" else 1.0) / architecture.filter**2
    out, doubt = np.empty((2, n1, n2))
    out[rows, columns], doubt[rows, columns] = sums * first.scale[rows] * second.scale[columns], shares
    if x2 is None:
        out[columns, rows], doubt[columns, rows] = out[rows, columns], doubt[rows, columns]
    return out, doubt


def usable_device(device: str | None) -> torch.device:
    if not installed():
        raise TritonUnusable("it is not installed")
    if interpreted():
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise TritonUnusable(f"there is no CUDA device ({INTERPRET_VARIABLE}=1 interprets it on the CPU, for tests)")
    return torch.device(device or "cuda") if device or not on_gpu() else current()


def launches(pairs: int, area: int, architecture: CntkSpec) -> list[tuple[int, int]]:
    """Ranges of pairs whose partial sums fit into memory."""
    planes = area if architecture.pooling == "gap" else 1
    size = max(1, min(MOST_PAIRS, PARTIAL_BYTES // (8 * planes)))
    return [(start, min(start + size, pairs)) for start in range(0, pairs, size)]


class Side:
    """One batch of images on the device, with the roots of its variances."""

    def __init__(self, pixels: torch.Tensor, roots: torch.Tensor, inverses: torch.Tensor, scale: np.ndarray) -> None:
        self.pixels, self.roots, self.inverses, self.scale = pixels, roots, inverses, scale

    @classmethod
    def of(cls, images: np.ndarray, architecture: CntkSpec, place: torch.device) -> Side:
        """pixels: (n, channels, height, width); roots and inverses: (n, convolutions, height, width)."""
        pixels, scale = normalised(torch.as_tensor(images).to(place))
        maps = torch.stack(variances(pixels, architecture), dim=1)
        return cls(pixels.contiguous(), maps.sqrt(), inverse_root(maps), scale)


def pair_sums(
    first: Side,
    second: Side,
    rows: np.ndarray,
    columns: np.ndarray,
    architecture: CntkSpec,
    doubtful_sine: float,
) -> np.ndarray:
    """Sums over all positions of all planes of each pair, and what of them is doubtful: float64, (2, pairs)."""
    pixels = first.pixels
    _, channels, height, width = pixels.shape
    planes = height * width if architecture.pooling == "gap" else 1
    partial, doubts = torch.zeros((2, len(rows), planes), dtype=pixels.dtype, device=pixels.device)
    block = power_of_two(height), power_of_two(width)
    warps = min(MOST_WARPS, max(1, power_of_two(block[0] * block[1] // POSITIONS_A_WARP)))
    tangent = architecture.kind == "ntk"
    plane_kernel()[(planes, len(rows))](
        first.pixels,
        second.pixels,
        first.roots,
        second.roots,
        first.inverses,
        second.inverses,
        torch.as_tensor(rows.astype(np.int32), device=pixels.device),
        torch.as_tensor(columns.astype(np.int32), device=pixels.device),
        coefficients(pixels.dtype).to(pixels.device),
        partial,
        doubts,
        HEIGHT=height,
        WIDTH=width,
        BLOCK_HEIGHT=block[0],
        BLOCK_WIDTH=block[1],
        CHANNELS=channels,
        LAYERS=architecture.convolutions,
        REACH=architecture.filter // 2,
        TANGENT=tangent,
        TRAIN_FIRST=tangent and architecture.train_first_last,
        ADD_OWN=not tangent or architecture.train_first_last,
        DEGREE=DEGREE[pixels.dtype],
        SNAP=SNAP_ULPS * torch.finfo(pixels.dtype).eps,
        DOUBTFUL=doubtful_sine / math.pi,
        num_warps=warps,
    )
    if second is first:
        # the plane of offset zero: an image's angles with itself are exactly zero there, and no doubt
        doubts[torch.as_tensor(rows == columns, device=pixels.device), 0] = 0
    return np.asarray(torch.stack([partial, doubts]).double().sum(dim=2).cpu().numpy())


@functools.cache
def coefficients(dtype: torch.dtype) -> torch.Tensor:
    """F(u) = theta / sin(theta), theta = acos(1 - u), on [0, 1] as 1 + u H(u): interpolation of H at Chebyshev's nodes.

    F(0) = 1 holds exactly, so that near cosine 1, where deep kernels live, no error of F adds up from layer to layer.
    """
    with mpmath.workdps(50):
        count = DEGREE[dtype]
        nodes = [(1 - mpmath.cos(mpmath.pi * (2 * k + 1) / (2 * count))) / 2 for k in range(count)]
        system = mpmath.matrix([[node**power for power in range(count)] for node in nodes])
        values = [(mpmath.acos(1 - u) / mpmath.sqrt(u * (2 - u)) - 1) / u for u in nodes]
        rise = mpmath.lu_solve(system, mpmath.matrix(values))
        return torch.tensor([1.0, *(float(c) for c in rise)], dtype=dtype)


@functools.cache
def plane_kernel() -> Any:
    """The jitted kernel; made at first use, so that Triton is only imported where it is wanted."""
    from tangentbench.kernels.plane_triton import plane

    return plane
