"""The recursion of section 4 in torch, on CPU and CUDA: the fallback of the native core and a second opinion on it.

All spatial offsets of a block of pairs are held at once, (pairs, height, width, height, width); a flatten kernel needs
offset zero only, (pairs, height, width).
"""

from __future__ import annotations

import math

import numpy as np
import torch

from tangentbench.device import current
from tangentbench.kernels.architecture import CntkSpec
from tangentbench.kernels.small_angles import share

CPU_BYTES = 512 << 20
CUDA_SHARE_OF_FREE = 0.5
TENSORS_ALIVE = 8
SNAP_ULPS = 16


def rectangle(
    x1: np.ndarray,
    x2: np.ndarray | None,
    architecture: CntkSpec,
    doubtful_sine: float = 0.0,
    device: str | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """What small_angles.Rectangle describes: float64, (n1, n2) each.

    x1, x2: (n, channels, height, width), both float32 or both float64.
    """
    place = torch.device(device) if device else current()
    first, first_scale = normalised(torch.as_tensor(x1).to(place))
    first_variances = variances(first, architecture)
    if x2 is None:
        second, second_scale, second_variances = first, first_scale, first_variances
    else:
        second, second_scale = normalised(torch.as_tensor(x2).to(place))
        second_variances = variances(second, architecture)
    out, doubt = np.zeros((2, len(first), len(second)))
    rows, columns = block(first, second, architecture, place)
    for i in range(0, len(first), rows):
        for j in range(0, len(second), columns):
            values, doubtful = block_kernel(
                first[i : i + rows],
                second[j : j + columns],
                [v[i : i + rows] for v in first_variances],
                [v[j : j + columns] for v in second_variances],
                architecture,
                doubtful_sine,
                same_image_at=i - j if x2 is None else None,
            )
            out[i : i + rows, j : j + columns] = values.double().cpu().numpy()
            if doubtful is not None:
                doubt[i : i + rows, j : j + columns] = doubtful.double().cpu().numpy()
    return np.asarray(out * first_scale[:, None] * second_scale[None, :]), share(doubt, out)


def normalised(images: torch.Tensor) -> tuple[torch.Tensor, np.ndarray]:
    """Images with pixels of at most 1 and the powers of two that were taken out."""
    largest = images.abs().amax(dim=(1, 2, 3))
    _, exponent = torch.frexp(largest)
    exponent = torch.where(largest > 0, exponent, torch.zeros_like(exponent))
    scale = torch.ldexp(torch.ones_like(largest), exponent)
    return images / scale[:, None, None, None], scale.double().cpu().numpy()


def block(first: torch.Tensor, second: torch.Tensor, architecture: CntkSpec, place: torch.device) -> tuple[int, int]:
    """How many images of each batch fit into memory together."""
    area = first.shape[2] * first.shape[3]
    entry = first.element_size() * TENSORS_ALIVE * (area * area if architecture.pooling == "gap" else area)
    limit = CPU_BYTES
    if place.type == "cuda":
        limit = int(CUDA_SHARE_OF_FREE * torch.cuda.mem_get_info(place)[0])
    pairs = max(1, limit // entry)
    columns = min(len(second), max(1, math.isqrt(pairs)))
    return min(len(first), max(1, pairs // columns)), columns


def variances(images: torch.Tensor, architecture: CntkSpec) -> list[torch.Tensor]:
    """Sigma^(h)(x, x) at equal positions for h = 0 .. L - 1, each (n, height, width)."""
    maps = [box_sum(torch.einsum("nchw,nchw->nhw", images, images), architecture.filter)]
    for _ in range(architecture.convolutions - 1):
        maps.append(box_sum(maps[-1], architecture.filter) / architecture.filter**2)
    return maps


def block_kernel(
    first: torch.Tensor,
    second: torch.Tensor,
    first_variances: list[torch.Tensor],
    second_variances: list[torch.Tensor],
    architecture: CntkSpec,
    doubtful_sine: float,
    same_image_at: int | None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The kernel of one block of pairs, (n1, n2), and how much of it comes from angles of a smaller sine.

    Image a of the block's first ones is image a + same_image_at of its second ones; None where there is no such.
    """
    pooled, patch = architecture.pooling == "gap", architecture.filter**2
    box = box_sum_of_pairs if pooled else box_sum
    products = "achw,bcij->abhwij" if pooled else "achw,bchw->abhw"
    sigma = box(torch.einsum(products, first, second), architecture.filter)
    theta = sigma if architecture.train_first_last else torch.zeros_like(sigma)
    for layer in range(architecture.convolutions):
        roots = outer(first_variances[layer].sqrt(), second_variances[layer].sqrt(), pooled)
        inverse = outer(inverse_root(first_variances[layer]), inverse_root(second_variances[layer]), pooled)
        k0, k1 = relu_dual(sigma, inverse, roots)
        if layer + 1 < architecture.convolutions:
            if architecture.kind == "ntk":
                theta = box(k0 * theta + k1, architecture.filter) / patch
            sigma = box(k1, architecture.filter) / patch
    own = k1 if architecture.kind == "nngp" or architecture.train_first_last else torch.zeros_like(k1)
    if architecture.kind == "nngp":
        return total(own, architecture), None
    tangent = k0 * theta
    values = total(tangent + own, architecture)
    if not doubtful_sine:
        return values, None
    # k0 depends on the angle itself, k1 only on its square
    doubted = tangent * (sine_of(rounded_cosine(sigma, inverse)) < doubtful_sine)
    if same_image_at is not None:
        trust_own_positions(doubted, same_image_at, pooled)
    return values, total(doubted, architecture)


def total(values: torch.Tensor, architecture: CntkSpec) -> torch.Tensor:
    """The last layer's sum or mean over positions, (n1, n2)."""
    flat = values.flatten(2)
    return (flat.mean(2) if architecture.pooling == "gap" else flat.sum(2)) / architecture.filter**2


def trust_own_positions(doubted: torch.Tensor, same_image_at: int, pooled: bool) -> None:
    """An image's angles with itself at equal positions are exactly zero, and no doubt."""
    height, width = doubted.shape[2:4]
    equal = torch.ones(height, width, device=doubted.device)
    if pooled:
        equal = torch.eye(height * width, device=doubted.device).view(height, width, height, width)
    for row in range(max(0, -same_image_at), min(len(doubted), doubted.shape[1] - same_image_at)):
        doubted[row, row + same_image_at] *= 1 - equal


def relu_dual(sigma: torch.Tensor, inverse: torch.Tensor, roots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Equations (19) and (20) times c_sigma = 2."""
    cosine = rounded_cosine(sigma, inverse)
    k0 = 1 - torch.acos(cosine) / torch.pi
    return k0, sigma * k0 + roots * sine_of(cosine) / torch.pi


def rounded_cosine(sigma: torch.Tensor, inverse: torch.Tensor) -> torch.Tensor:
    cosine = (sigma * inverse).clamp(-1, 1)
    # Rounding of |cosine| = 1 would be magnified by the square root and by acos.
    nearly = 1 - cosine.abs() < SNAP_ULPS * torch.finfo(sigma.dtype).eps
    return torch.where(nearly, cosine.sign(), cosine)


def sine_of(cosine: torch.Tensor) -> torch.Tensor:
    return torch.sqrt((1 - cosine) * (1 + cosine))


def inverse_root(variance: torch.Tensor) -> torch.Tensor:
    tiny = torch.finfo(variance.dtype).tiny ** 0.75
    return torch.where(variance > tiny, variance.clamp_min(tiny).rsqrt(), torch.zeros_like(variance))


def outer(first: torch.Tensor, second: torch.Tensor, pooled: bool) -> torch.Tensor:
    if pooled:
        return first[:, None, :, :, None, None] * second[None, :, None, None, :, :]
    return first[:, None] * second[None, :]


def box_sum(maps: torch.Tensor, side: int) -> torch.Tensor:
    """Sum over side x side neighbourhoods of the last two axes, zeros around."""
    return slide(slide(maps, side, (-2,)), side, (-1,))


def box_sum_of_pairs(maps: torch.Tensor, side: int) -> torch.Tensor:
    """tr([T]_D): both positions (axes -4, -3 and -2, -1) move together."""
    return slide(slide(maps, side, (-4, -2)), side, (-3, -1))


def slide(maps: torch.Tensor, side: int, axes: tuple[int, ...]) -> torch.Tensor:
    total = maps.clone()
    shortest = min(maps.shape[axis] for axis in axes)
    for shift in range(1, min(side // 2, shortest - 1) + 1):
        total_low, maps_high, total_high, maps_low = total, maps, total, maps
        for axis in axes:
            kept = maps.shape[axis] - shift
            total_low, maps_high = total_low.narrow(axis, 0, kept), maps_high.narrow(axis, shift, kept)
            total_high, maps_low = total_high.narrow(axis, shift, kept), maps_low.narrow(axis, 0, kept)
        total_low += maps_high
        total_high += maps_low
    return total
