"""The recursion in torch, on CPU and CUDA: every layer and activation, and a second opinion on the native core.

Covariances of all pairs of positions are held at once, (pairs, height, width, height, width); a network that flattens
and never pools needs equal positions only, (pairs, height, width). Where every layer is homogeneous, each image carries
a power of two that is taken out layer by layer, so that neither dark images nor hundreds of layers leave the range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tangentbench.device import current
from tangentbench.kernels._backends.contract import Values, share
from tangentbench.kernels.network import (
    ActivationLayer,
    AveragePool,
    Convolution,
    Covariances,
    InvalidKernelInput,
    Layer,
    Size,
    mixes_positions,
    padding,
)
from tangentbench.theory.pair_quadrature import pair_of

CPU_BYTES = 512 << 20
CUDA_SHARE_OF_FREE = 0.5
TENSORS_ALIVE = 8
SNAP_ULPS = 16
FAR = 16
"""Binary orders from which a map is rescaled."""


def refusal(trunk: Sequence[Layer], gather: Layer, size: Size) -> str | None:
    return None


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
    """As the contract says; `threads` are torch's own."""
    place = current()
    scaled = all(layer.homogeneous for layer in trunk)
    first = Side.of(torch.as_tensor(x1).to(place), trunk, scaled)
    second = first if x2 is None else Side.of(torch.as_tensor(x2).to(place), trunk, scaled)
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    rows, columns = np.triu_indices(n1) if x2 is None else np.indices((n1, n2)).reshape(2, -1)
    out = np.zeros((3, len(taps), n1, n2))
    everywhere = mixes_positions(trunk) or gather.operation != "flatten"
    at_once = pairs_at_once(first.images, everywhere)
    for start in range(0, len(rows), at_once):
        i, j = rows[start : start + at_once], columns[start : start + at_once]
        for tap, values in zip(taps, through(first, second, (i, j), trunk, gather, taps, doubtful_sine), strict=True):
            out[:, taps.index(tap), i, j] = values
            if x2 is None:
                out[:, taps.index(tap), j, i] = values
    return Values(out[0], out[1], share(out[2], out[1]))


def pairs_at_once(images: Tensor, everywhere: bool) -> int:
    area = images.shape[2] * images.shape[3]
    cuda = images.device.type == "cuda"
    limit = int(CUDA_SHARE_OF_FREE * torch.cuda.mem_get_info(images.device)[0]) if cuda else CPU_BYTES
    return max(1, limit // (images.element_size() * TENSORS_ALIVE * (area * area if everywhere else area)))


@dataclass
class Side:
    """One batch of images, with its variances in front of every activation and the powers of two taken out."""

    images: Tensor
    variances: list[Tensor] = field(default_factory=list)
    """(n, height, width) each, in the order in which the layers are run."""
    exponents: list[Tensor] = field(default_factory=list)
    """(n,) before the first layer and after each: binary orders of the images' values."""

    @classmethod
    def of(cls, images: Tensor, trunk: Sequence[Layer], scaled: bool) -> Side:
        side = cls(images)
        side.exponents.append(orders(images, scaled))
        side.images = images * torch.exp2(-side.exponents[0].to(images.dtype))[:, None, None, None]
        everywhere = mixes_positions(trunk)
        at_once = pairs_at_once(images, everywhere)
        parts = [
            own_variances(some, trunk, everywhere, scaled)
            for some in (side.images[k : k + at_once] for k in range(0, len(images), at_once))
        ]
        if parts:
            side.variances = [torch.cat(maps) for maps in zip(*(one[0] for one in parts), strict=True)]
            side.exponents += [torch.cat(some) for some in zip(*(one[1] for one in parts), strict=True)]
        return side


def orders(values: Tensor, scaled: bool) -> Tensor:
    """The binary order of each image's largest value, zero where nothing may be scaled."""
    largest = values.abs().flatten(1).amax(dim=1)
    exponent = torch.frexp(largest)[1].to(torch.int32)
    return torch.where((largest > 0) & scaled, exponent, torch.zeros_like(exponent))


def own_variances(
    images: Tensor, trunk: Sequence[Layer], everywhere: bool, scaled: bool
) -> tuple[list[Tensor], list[Tensor]]:
    maths: Positions = AllPositions() if everywhere else EqualPositions()
    state, exponents = Covariances(maths.products(images, images)), []
    for layer in trunk:
        state = layer.covariances(state, maths)
        # half of a variance's order belongs to each of the two equal images
        order = torch.div(orders(state.sigma, scaled), 2, rounding_mode="floor")
        order = torch.where(order.abs() < FAR, torch.zeros_like(order), order)
        exponents.append(order)
        state = state.mapped(lambda maps, order=order: times_power(maps, -2 * order))  # type: ignore[misc]
    return maths.recorded, exponents


def through(
    first: Side,
    second: Side,
    pairs: tuple[np.ndarray, np.ndarray],
    trunk: Sequence[Layer],
    gather: Layer,
    taps: Sequence[int],
    doubtful_sine: float,
) -> list[np.ndarray]:
    """Sigma, Theta and doubtful Theta behind `gather` for each tap: float64 (3, pairs)."""
    i, j = (torch.as_tensor(chosen, device=first.images.device) for chosen in pairs)
    known = [(one[i], other[j]) for one, other in zip(first.variances, second.variances, strict=True)]
    everywhere = mixes_positions(trunk) or gather.operation != "flatten"
    same = (first.images[i] == second.images[j]).flatten(1).all(dim=1)
    maths: Positions = (AllPositions if everywhere else EqualPositions)(known, doubtful_sine, same)
    sigma = maths.products(first.images[i], second.images[j])
    state = Covariances(sigma, torch.zeros_like(sigma), torch.zeros_like(sigma) if doubtful_sine else None)
    order = first.exponents[0][i] + second.exponents[0][j]
    found: dict[int, np.ndarray] = {}
    for done in range(len(trunk) + 1):
        if done in taps:
            end = gather.covariances(state, maths)
            maps = [end.sigma, end.theta, end.doubt if end.doubt is not None else torch.zeros_like(end.sigma)]
            found[done] = np.stack([in_range(one.double().cpu().numpy(), order.cpu().numpy()) for one in maps])
        if done < max(taps, default=0):
            state = trunk[done].covariances(state, maths)
            step = first.exponents[done + 1][i] + second.exponents[done + 1][j]
            if step.any():
                state, order = state.mapped(lambda maps, step=step: times_power(maps, -step)), order + step  # type: ignore[misc]
    return [found[tap] for tap in taps]


def in_range(values: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Values with their binary orders back, if float64 holds them."""
    with np.errstate(over="ignore", under="ignore"):
        out = np.ldexp(values, orders)
    if not np.isfinite(out).all() or ((np.abs(out) < np.finfo(np.float64).tiny) & (values != 0)).any():
        raise InvalidKernelInput(
            "the kernel leaves the range of float64: take fewer layers, other variances or images nearer to 1"
        )
    return np.asarray(out)


def times_power(maps: Tensor, order: Tensor) -> Tensor:
    if not order.any():
        return maps
    # in two steps: half of it is in range where the whole is not
    half = torch.div(order, 2, rounding_mode="floor")
    for part in (half, order - half):
        maps = maps * torch.exp2(part.to(maps.dtype)).reshape(-1, *[1] * (maps.dim() - 1))
    return maps


class Positions:
    """kernels.network.Maths for tensors; subclasses say which pairs of positions they hold."""

    def __init__(
        self,
        known: Sequence[tuple[Tensor, Tensor]] | None = None,
        doubtful_sine: float = 0.0,
        same: Tensor | None = None,
    ) -> None:
        """known: variances of both images in front of each activation; None are those of equal images, to record."""
        self.known = None if known is None else list(known)
        self.doubtful_sine, self.same = doubtful_sine, same
        self.recorded: list[Tensor] = []

    def products(self, first: Tensor, second: Tensor) -> Tensor:
        """Covariances of the pixels: means over channels."""
        raise NotImplementedError

    def outer(self, first: Tensor, second: Tensor) -> Tensor:
        raise NotImplementedError

    def own(self, maps: Tensor) -> Tensor:
        """(pairs, height, width) at equal positions."""
        raise NotImplementedError

    def equal(self, maps: Tensor) -> Tensor:
        """Where a position meets itself, in the shape of one pair's maps."""
        raise NotImplementedError

    def window_sum(self, maps: Tensor, layer: Convolution) -> Tensor:
        raise NotImplementedError

    def window_mean(self, maps: Tensor, layer: AveragePool) -> Tensor:
        raise NotImplementedError

    def mean_of_all(self, maps: Tensor) -> Tensor:
        raise NotImplementedError

    def mean_of_equal(self, maps: Tensor) -> Tensor:
        raise NotImplementedError

    def activated(self, state: Covariances, layer: ActivationLayer) -> Covariances:
        if self.known is None:
            self.recorded.append(self.own(state.sigma).contiguous())
            first = second = self.recorded[-1]
        else:
            first, second = self.known.pop(0)
        if layer.slope is None:
            k1, k0 = by_pairs(
                layer,
                state.sigma,
                self.outer(first, torch.ones_like(second)),
                self.outer(torch.ones_like(first), second),
            )
            doubtful = torch.zeros_like(k1, dtype=torch.bool)
        else:
            roots = self.outer(first.sqrt(), second.sqrt())
            cosine = rounded_cosine(state.sigma, self.outer(inverse_root(first), inverse_root(second)))
            k1, k0, sine = leaky_dual(state.sigma, cosine, roots, layer.slope)
            doubtful = sine < self.doubtful_sine
        if state.theta is None:
            return Covariances(k1)
        if k0 is None:
            # a jump: the front has refused the tangent kernel, and nobody reads this one
            return Covariances(k1, torch.zeros_like(k1), state.doubt)
        theta = state.theta * k0
        if state.doubt is None:
            return Covariances(k1, theta)
        if self.same is not None and self.same.any():
            # an image's angles with itself at equal positions are exactly zero, and no doubt
            doubtful[self.same] &= ~self.equal(state.sigma)
        return Covariances(k1, theta, torch.where(doubtful, theta, state.doubt * k0))


class AllPositions(Positions):
    """(pairs, height, width, height, width)."""

    def products(self, first: Tensor, second: Tensor) -> Tensor:
        return torch.einsum("pchw,pcij->phwij", first, second) / first.shape[1]

    def outer(self, first: Tensor, second: Tensor) -> Tensor:
        return first[:, :, :, None, None] * second[:, None, None]

    def own(self, maps: Tensor) -> Tensor:
        return maps.diagonal(dim1=1, dim2=3).diagonal(dim1=1, dim2=2)

    def equal(self, maps: Tensor) -> Tensor:
        height, width = maps.shape[1:3]
        return torch.eye(height * width, dtype=torch.bool, device=maps.device).view(height, width, height, width)

    def window_sum(self, maps: Tensor, layer: Convolution) -> Tensor:
        """Over the filter, both positions moving together, at every `stride`-th position."""
        total = slide(slide(maps, layer.filter, (1, 3)), layer.filter, (2, 4))
        return strided(total, layer, (1, 2, 3, 4))

    def window_mean(self, maps: Tensor, layer: AveragePool) -> Tensor:
        """Over windows of the first and of the second position."""
        for _ in range(2):
            count, height, width, rows, columns = maps.shape
            one = maps.reshape(count * height * width, 1, rows, columns)
            if layer.padded:
                top, bottom = padding(rows, layer.window, layer.stride)
                left, right = padding(columns, layer.window, layer.stride)
                one = F.pad(one, (left, right, top, bottom))
            one = F.avg_pool2d(one, layer.window, layer.stride)
            maps = one.reshape(count, height, width, *one.shape[-2:]).permute(0, 3, 4, 1, 2)
        return maps.contiguous()

    def mean_of_all(self, maps: Tensor) -> Tensor:
        return maps.double().mean(dim=(1, 2, 3, 4))

    def mean_of_equal(self, maps: Tensor) -> Tensor:
        return self.own(maps).double().mean(dim=(1, 2))


class EqualPositions(Positions):
    """(pairs, height, width)."""

    def products(self, first: Tensor, second: Tensor) -> Tensor:
        return torch.einsum("pchw,pchw->phw", first, second) / first.shape[1]

    def outer(self, first: Tensor, second: Tensor) -> Tensor:
        return first * second

    def own(self, maps: Tensor) -> Tensor:
        return maps

    def equal(self, maps: Tensor) -> Tensor:
        return torch.ones(maps.shape[1:], dtype=torch.bool, device=maps.device)

    def window_sum(self, maps: Tensor, layer: Convolution) -> Tensor:
        return strided(slide(slide(maps, layer.filter, (1,)), layer.filter, (2,)), layer, (1, 2))

    def window_mean(self, maps: Tensor, layer: AveragePool) -> Tensor:
        raise AssertionError("pooling mixes positions")

    def mean_of_all(self, maps: Tensor) -> Tensor:
        raise AssertionError("the mean over all positions mixes them")

    def mean_of_equal(self, maps: Tensor) -> Tensor:
        return maps.double().mean(dim=(1, 2))


def leaky_dual(sigma: Tensor, cosine: Tensor, roots: Tensor, slope: float) -> tuple[Tensor, Tensor, Tensor]:
    """Expectations of both values and of both slopes, and the sine of the angle (equations 19 and 20 at slope 0)."""
    sine = torch.sqrt((1 - cosine) * (1 + cosine))
    gates = 1 - torch.acos(cosine) / torch.pi
    bend = (1 - slope) ** 2 / 2
    k1 = bend * (sigma * gates + roots * sine / torch.pi)
    return (k1 + slope * sigma, bend * gates + slope, sine) if slope else (k1, bend * gates, sine)


def by_pairs(layer: ActivationLayer, sigma: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor | None]:
    """Any other activation, by numpy in float64 (its closed form, or quadrature)."""
    arrays = (one.detach().double().cpu().numpy() for one in (sigma, first, second))
    k1, k0 = (None if one is None else torch.as_tensor(one) for one in pair_of(layer.record)(*arrays))
    assert k1 is not None
    return k1.to(sigma), None if k0 is None else k0.to(sigma)


def rounded_cosine(sigma: Tensor, inverse: Tensor) -> Tensor:
    cosine = (sigma * inverse).clamp(-1, 1)
    # Rounding of |cosine| = 1 would be magnified by the square root and by acos.
    nearly = 1 - cosine.abs() < SNAP_ULPS * torch.finfo(sigma.dtype).eps
    return torch.where(nearly, cosine.sign(), cosine)


def inverse_root(variance: Tensor) -> Tensor:
    tiny = torch.finfo(variance.dtype).tiny ** 0.75
    return torch.where(variance > tiny, variance.clamp_min(tiny).rsqrt(), torch.zeros_like(variance))


def strided(sums: Tensor, layer: Convolution, axes: Sequence[int]) -> Tensor:
    if layer.stride == 1:
        return sums
    for axis in axes:
        before, _ = padding(sums.shape[axis], layer.filter, layer.stride)
        wanted = torch.arange(layer.filter // 2 - before, sums.shape[axis], layer.stride, device=sums.device)
        sums = sums.index_select(axis, wanted)
    return sums


def slide(maps: Tensor, side: int, axes: tuple[int, ...]) -> Tensor:
    """Sums over `side` neighbours along the axes, which move together; zeros around."""
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
