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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import torch

from tangentbench.device import current, on_gpu
from tangentbench.errors import TangentbenchError
from tangentbench.kernels._backends.contract import Values, share
from tangentbench.kernels._backends.torch import EqualPositions, inverse_root
from tangentbench.kernels.network import Convolution, Layer, Network, Size

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
        super().__init__(f"the kernel cannot run in Triton: {reason}; use backend='torch' or 'native'")


def installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def interpreted() -> bool:
    return os.environ.get(INTERPRET_VARIABLE, "0") == "1"


def fits(height: int, width: int) -> bool:
    return power_of_two(height) * power_of_two(width) <= LARGEST_AREA


def power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


@dataclass(frozen=True)
class Chain:
    """Convolutions of one size with a ReLU after each: what the kernel is written for."""

    layers: Network
    pooled: bool
    train_first: bool
    tangent: bool

    @property
    def convolutions(self) -> list[Convolution]:
        return [layer for layer in self.layers if isinstance(layer, Convolution)]

    @property
    def filter(self) -> int:
        return self.convolutions[0].filter


def refusal(trunk: Sequence[Layer], gather: Layer, size: Size) -> str | None:
    if not installed():
        return "Triton is not installed"
    if not fits(*size):
        return f"images of {size[0]} x {size[1]} do not fit into a program's registers"
    chain = [layer for layer in trunk if isinstance(layer, Convolution)]
    if [layer.operation for layer in trunk] != ["convolution", "activation"] * len(chain) or not chain:
        return "Triton has convolutions with a ReLU after each and nothing else"
    if any(getattr(layer, "slope", 0.0) != 0.0 or layer.bias_variance for layer in trunk):
        return "Triton has no biases and no activation but ReLU"
    if len({layer.filter for layer in chain}) > 1 or any(layer.stride > 1 for layer in chain):
        return "Triton has one size of filters and no strides"
    return None if all(layer.trained for layer in chain[1:]) else "Triton can freeze the first convolution only"


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
    """As the contract says, one launch for each tap and kernel."""
    place = usable_device()
    pooled, first = (
        gather.operation == "global_average_pool",
        [layer for layer in trunk if isinstance(layer, Convolution)],
    )
    out = np.zeros((3, len(taps), len(x1), len(x1 if x2 is None else x2)))
    for number, tap in enumerate(taps):
        for tangent in (False, True):
            chain = Chain(tuple(trunk[:tap]), pooled, first[0].trained, tangent)
            values, doubt = rectangle(x1, x2, chain, doubtful_sine if tangent else 0.0, place)
            out[int(tangent), number] = values
        out[2, number] = doubt
    return Values(*out)


def rectangle(
    x1: np.ndarray, x2: np.ndarray | None, chain: Chain, doubtful_sine: float, place: torch.device
) -> tuple[np.ndarray, np.ndarray]:
    """Sigma or Theta behind the positions, (n1, n2), and the share of it that is doubtful."""
    first = Side.of(x1, chain, place)
    second = first if x2 is None else Side.of(x2, chain, place)
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    rows, columns = np.triu_indices(n1) if x2 is None else np.indices((n1, n2)).reshape(2, -1)
    area = x1.shape[2] * x1.shape[3]
    parts = [
        pair_sums(first, second, rows[start:end], columns[start:end], chain, doubtful_sine)
        for start, end in launches(len(rows), area, chain)
    ]
    totals, doubts = np.concatenate(parts, axis=1) if parts else np.zeros((2, 0))
    shares = share(doubts, totals)
    # the kernel doubles what a ReLU gives and sums over the first patch and the channels; here are means
    variance = math.prod(layer.weight_variance / 2 for layer in chain.convolutions)
    totals *= variance / (area**2 if chain.pooled else area) / chain.filter**2 / x1.shape[1]
    out, doubt = np.empty((2, n1, n2))
    out[rows, columns], doubt[rows, columns] = totals, shares
    if x2 is None:
        out[columns, rows], doubt[columns, rows] = out[rows, columns], doubt[rows, columns]
    return out, doubt


def usable_device() -> torch.device:
    if not installed():
        raise TritonUnusable("it is not installed")
    if interpreted():
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise TritonUnusable(f"there is no CUDA device ({INTERPRET_VARIABLE}=1 interprets it on the CPU, for tests)")
    return current() if on_gpu() else torch.device("cuda")


def launches(pairs: int, area: int, chain: Chain) -> list[tuple[int, int]]:
    """Ranges of pairs whose partial sums fit into memory."""
    planes = area if chain.pooled else 1
    size = max(1, min(MOST_PAIRS, PARTIAL_BYTES // (8 * planes)))
    return [(start, min(start + size, pairs)) for start in range(0, pairs, size)]


class Side:
    """One batch of images on the device, with the roots of its variances."""

    def __init__(self, pixels: torch.Tensor, roots: torch.Tensor, inverses: torch.Tensor) -> None:
        self.pixels, self.roots, self.inverses = pixels, roots, inverses

    @classmethod
    def of(cls, images: np.ndarray, chain: Chain, place: torch.device) -> Side:
        """pixels: (n, channels, height, width); roots and inverses: (n, convolutions, height, width)."""
        pixels = torch.as_tensor(images).to(place)
        maps = torch.stack(variances(pixels, chain), dim=1)
        return cls(pixels.contiguous(), maps.sqrt(), inverse_root(maps))


def variances(images: torch.Tensor, chain: Chain) -> list[torch.Tensor]:
    """Sigma(x, x) in front of each ReLU in the kernel's scale, each (n, height, width)."""
    one = Convolution(chain.filter)
    maths = EqualPositions()
    maps = [maths.window_sum(torch.einsum("nchw,nchw->nhw", images, images), one)]
    for _ in range(len(chain.convolutions) - 1):
        maps.append(maths.window_sum(maps[-1], one) / chain.filter**2)
    return maps


def pair_sums(
    first: Side,
    second: Side,
    rows: np.ndarray,
    columns: np.ndarray,
    chain: Chain,
    doubtful_sine: float,
) -> np.ndarray:
    """Sums over all positions of all planes of each pair, and what of them is doubtful: float64, (2, pairs)."""
    pixels = first.pixels
    _, channels, height, width = pixels.shape
    planes = height * width if chain.pooled else 1
    partial, doubts = torch.zeros((2, len(rows), planes), dtype=pixels.dtype, device=pixels.device)
    block = power_of_two(height), power_of_two(width)
    warps = min(MOST_WARPS, max(1, power_of_two(block[0] * block[1] // POSITIONS_A_WARP)))
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
        LAYERS=len(chain.convolutions),
        REACH=chain.filter // 2,
        TANGENT=chain.tangent,
        TRAIN_FIRST=chain.tangent and chain.train_first,
        ADD_OWN=not chain.tangent,
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
    from tangentbench.kernels._backends.triton_plane import plane

    return plane
