"""The kernels of networks given as layers, in torch: every layer of kernels/layers.py, on CPU and CUDA.

Covariances of all pairs of positions are held at once, (pairs, height, width, height, width).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tangentbench.device import current
from tangentbench.kernels.layers import (
    AveragePool,
    Convolution,
    Dense,
    Flatten,
    GlobalAveragePool,
    Layer,
    Relu,
    Residual,
    padding,
)
from tangentbench.kernels.recursion_torch import (
    CPU_BYTES,
    CUDA_SHARE_OF_FREE,
    TENSORS_ALIVE,
    box_sum_of_pairs,
    inverse_root,
    normalised,
    relu_dual,
)


@dataclass(frozen=True)
class Covariances:
    """Sigma and Theta of pairs of images: (pairs, h, w, h, w), or (pairs, 1, 1, 1, 1) where positions have ended."""

    sigma: Tensor
    theta: Tensor


class Variances:
    """The variances in front of every ReLU, (images, h, w) each, in the order in which the layers are run."""

    def __init__(self) -> None:
        self.maps: list[Tensor] = []

    def add(self, covariances: Covariances) -> None:
        self.maps.append(equal_positions(covariances.sigma).contiguous())


def pairs(
    x1: np.ndarray,
    x2: np.ndarray,
    chosen: np.ndarray,
    layers: Sequence[Layer],
    *,
    tangent: bool = True,
    device: str | None = None,
) -> np.ndarray:
    """Sigma and Theta behind all `layers` of the pairs (rows of x1, rows of x2): float64 (count, 2)."""
    place = torch.device(device) if device else current()
    first, first_scale = normalised(torch.as_tensor(x1).to(place))
    second, second_scale = normalised(torch.as_tensor(x2).to(place))
    at_once = pairs_at_once(first, place)
    variances = [recorded(images, layers, at_once) for images in (first, second)]
    out = np.empty((len(chosen), 2))
    for start in range(0, len(chosen), at_once):
        rows, columns = (torch.as_tensor(chosen[start : start + at_once, side], device=place) for side in (0, 1))
        known = list(zip([one[rows] for one in variances[0]], [one[columns] for one in variances[1]], strict=True))
        end = run(layers, begun(first[rows], second[columns], tangent), known, None)
        assert not known, "every ReLU takes one pair of variances"
        scale = first_scale[rows.cpu().numpy()] * second_scale[columns.cpu().numpy()]
        for column, values in enumerate((end.sigma, end.theta)):
            out[start : start + at_once, column] = values.flatten().double().cpu().numpy() * scale
    return out


def pairs_at_once(images: Tensor, place: torch.device) -> int:
    area = images.shape[2] * images.shape[3]
    limit = CPU_BYTES if place.type != "cuda" else int(CUDA_SHARE_OF_FREE * torch.cuda.mem_get_info(place)[0])
    return max(1, limit // (images.element_size() * TENSORS_ALIVE * area * area))


def begun(first: Tensor, second: Tensor, tangent: bool) -> Covariances:
    """Covariances of the pixels, averaged over channels; nothing is trained yet."""
    sigma = torch.einsum("pchw,pcij->phwij", first, second) / first.shape[1]
    return Covariances(sigma, torch.zeros_like(sigma) if tangent else sigma.new_zeros(()))


def recorded(images: Tensor, layers: Sequence[Layer], at_once: int) -> list[Tensor]:
    parts: list[list[Tensor]] = []
    for start in range(0, len(images), at_once):
        some = images[start : start + at_once]
        record = Variances()
        run(layers, begun(some, some, tangent=False), None, record)
        parts.append(record.maps)
    return [torch.cat(maps) for maps in zip(*parts, strict=True)]


def run(
    layers: Sequence[Layer],
    state: Covariances,
    known: list[tuple[Tensor, Tensor]] | None,
    record: Variances | None,
) -> Covariances:
    """Through all layers. `record` takes down the variances of pairs of equal images, `known` gives them in order."""
    for layer in layers:
        if isinstance(layer, Relu):
            state = rectified(state, known, record)
        elif isinstance(layer, Residual):
            main = run(layer.main, state, known, record)
            other = run(layer.shortcut, state, known, record)
            state = Covariances(main.sigma + other.sigma, main.theta + other.theta)
        else:
            state = linear(layer, state)
    return state


def linear(layer: Layer, state: Covariances) -> Covariances:
    if isinstance(layer, AveragePool):
        return each(state, lambda maps: pooled(maps, layer))
    if isinstance(layer, GlobalAveragePool):
        return each(state, lambda maps: maps.mean(dim=(1, 2, 3, 4), keepdim=True))
    if isinstance(layer, Flatten):
        return each(state, lambda maps: equal_positions(maps).mean(dim=(1, 2))[:, None, None, None, None])
    assert isinstance(layer, Convolution | Dense)
    # Theta' = A(Theta) + Sigma', Sigma' = A(Sigma): the layer's own weights add Sigma'
    sum_of_both = Covariances(state.sigma, state.theta + state.sigma if state.theta.dim() else state.theta)
    if isinstance(layer, Dense):
        return each(sum_of_both, lambda maps: maps * layer.gain)
    return each(sum_of_both, lambda maps: filtered(maps, layer))


def each(state: Covariances, change: Callable[[Tensor], Tensor]) -> Covariances:
    return replace(state, sigma=change(state.sigma), theta=change(state.theta) if state.theta.dim() else state.theta)


def equal_positions(maps: Tensor) -> Tensor:
    """(pairs, h, w) from (pairs, h, w, h, w)."""
    return maps.diagonal(dim1=1, dim2=3).diagonal(dim1=1, dim2=2)


def rectified(state: Covariances, known: list[tuple[Tensor, Tensor]] | None, record: Variances | None) -> Covariances:
    if record is not None:
        record.add(state)
        own = record.maps[-1]
        first, second = own, own
    else:
        assert known is not None
        first, second = known.pop(0)
    roots = outer(first.sqrt(), second.sqrt())
    inverse = outer(inverse_root(first), inverse_root(second))
    k0, k1 = relu_dual(state.sigma, inverse, roots)
    return Covariances(k1 / 2, state.theta * k0 / 2 if state.theta.dim() else state.theta)


def outer(first: Tensor, second: Tensor) -> Tensor:
    return first[:, :, :, None, None] * second[:, None, None]


def filtered(maps: Tensor, layer: Convolution) -> Tensor:
    """The mean over the filter, both positions moving together, at every `stride`-th position."""
    sums = box_sum_of_pairs(maps, layer.filter)
    for axis in (1, 2, 3, 4):
        before, _ = padding(maps.shape[axis], layer.filter, layer.stride)
        wanted = torch.arange(layer.filter // 2 - before, maps.shape[axis], layer.stride, device=maps.device)
        sums = sums.index_select(axis, wanted) if layer.stride > 1 else sums
    return sums * (layer.gain / layer.filter**2)


def pooled(maps: Tensor, layer: AveragePool) -> Tensor:
    """Means over windows of the first and of the second position."""
    for _ in range(2):
        count, height, width, rows, columns = maps.shape
        flat = maps.reshape(count * height * width, 1, rows, columns)
        if layer.padded:
            top, bottom = padding(rows, layer.side, layer.stride)
            left, right = padding(columns, layer.side, layer.stride)
            flat = F.pad(flat, (left, right, top, bottom))
        flat = F.avg_pool2d(flat, layer.side, layer.stride)
        maps = flat.reshape(count, height, width, *flat.shape[-2:]).permute(0, 3, 4, 1, 2)
    return maps.contiguous()
