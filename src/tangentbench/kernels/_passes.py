"""One pass of a backend through a trunk that several networks share, block by block, and their heads."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tangentbench.kernels._backends.contract import Values
from tangentbench.kernels._images import restored, scaled_to_one
from tangentbench.kernels._precision import convolutions_of, repaired
from tangentbench.kernels.choice import sums_of
from tangentbench.kernels.network import (
    ActivationLayer,
    Covariances,
    Layer,
    Network,
    description,
    mixes_positions,
    parts,
)
from tangentbench.progress import tqdm
from tangentbench.theory.pair_quadrature import pair_of

BLOCK_LIMIT = 256
BLOCK_TABLE_BYTES = 128 << 20
BLOCK_ENTRY_LAYERS = 4e9  # a few seconds of work, the step of the progress bar

Block = tuple[slice, slice, list[tuple[int, np.ndarray, np.ndarray]]]
"""Rows, columns, and (network's number, NNGP, NTK) of what lies there."""


@dataclass(frozen=True)
class Group:
    """Networks whose trunks are beginnings of one trunk, and which end their positions in the same way."""

    trunk: Network
    gather: Layer
    members: tuple[tuple[int, int, Network], ...]
    """(the network's number, the length of its trunk, the layers behind the positions)."""

    @property
    def taps(self) -> list[int]:
        return sorted({tap for _, tap, _ in self.members})

    @property
    def equal_only(self) -> bool:
        """Whether only equal positions of two images count."""
        return self.gather.operation == "flatten" and not mixes_positions(self.trunk)

    @property
    def activated_head(self) -> bool:
        return any(layer.operation == "activation" for _, _, head in self.members for layer in head)


def shared_passes(networks: Sequence[Network]) -> list[Group]:
    """As few passes as can serve all networks."""
    found: list[tuple[Network, Layer, list[tuple[int, int, Network]]]] = []
    order = sorted(range(len(networks)), key=lambda number: -len(parts(networks[number])[0]))
    for number in order:
        trunk, gather, head = parts(networks[number])
        for longest, end, members in found:
            if end == gather and description(longest[: len(trunk)]) == description(trunk):
                members.append((number, len(trunk), head))
                break
        else:
            found.append((trunk, gather, [(number, len(trunk), head)]))
    return [Group(trunk, gather, tuple(members)) for trunk, gather, members in found]


@dataclass(frozen=True)
class Pass:
    group: Group
    backend: str
    threads: int
    tangent: bool
    inner: np.dtype[Any]
    """The precision between the layers."""

    def blocks(self, first: np.ndarray, second: np.ndarray | None, *, progress: bool) -> Iterator[Block]:
        """Blocks of the matrix, one by one: memory does not grow with the number of images, and the bar moves."""
        left = Scaled.of(first.astype(self.inner, copy=False), self.group.trunk)
        right = left if second is None else Scaled.of(second.astype(self.inner, copy=False), self.group.trunk)
        rows, columns = self.block_shape(left.images, second is None)
        pieces = [
            (slice(i, min(i + rows, len(left.images))), slice(j, min(j + columns, len(right.images))))
            for i in range(0, len(left.images), rows)
            for j in range(i if second is None else 0, len(right.images), columns)
        ]
        total = sum((r.stop - r.start) * (c.stop - c.start) for r, c in pieces)
        hidden = not progress or len(pieces) == 1 or not sys.stderr.isatty()
        own = [self.own_variances(side.images) if self.group.activated_head else None for side in (left, right)]
        with tqdm(total=total, unit="entry", unit_scale=True, desc="kernel", disable=hidden) as bar:
            for row, column in pieces:
                diagonal = second is None and row == column
                x1, x2 = left.images[row], None if diagonal else right.images[column]
                nngp, ntk = repaired(
                    x1, x2, self.group.trunk, self.sums, tangent=self.tangent, equal_only=self.group.equal_only
                )
                nngp, ntk = (restored(one, left.orders[row], right.orders[column]) for one in (nngp, ntk))
                yield (
                    row,
                    column,
                    [
                        (
                            number,
                            *self.behind(
                                head, self.group.taps.index(tap), (nngp, ntk), (row, column), own, (left, right)
                            ),
                        )
                        for number, tap, head in self.group.members
                    ],
                )
                bar.update((row.stop - row.start) * (column.stop - column.start))

    def sums(self, x1: np.ndarray, x2: np.ndarray | None, sine: float) -> Values:
        compute = sums_of(self.backend)
        group = self.group
        return compute(x1, x2, group.trunk, group.gather, group.taps, threads=self.threads, doubtful_sine=sine)

    def own_variances(self, images: np.ndarray) -> np.ndarray:
        """Every image's variance behind the positions, (taps, n)."""
        own = [self.sums(images[i : i + 1], None, 0.0).nngp[:, 0, 0] for i in range(len(images))]
        return np.stack(own, axis=1) if own else np.zeros((len(self.group.taps), 0))

    def behind(
        self,
        head: Network,
        tap: int,
        values: tuple[np.ndarray, np.ndarray],
        place: tuple[slice, slice],
        own: Sequence[np.ndarray | None],
        sides: tuple[Scaled, Scaled],
    ) -> tuple[np.ndarray, np.ndarray]:
        """NNGP and NTK behind the head."""
        variances = [
            None if one is None else np.ldexp(one[tap][where], 2 * side.orders[where])
            for one, where, side in zip(own, place, sides, strict=True)
        ]
        state = Covariances(values[0][tap], values[1][tap])
        for layer in head:
            first, second = variances
            state = layer.covariances(state, Numbers(first, second, self.tangent))
            variances = [
                None if one is None else layer.covariances(Covariances(one), Numbers(one, one, False)).sigma
                for one in variances
            ]
        return np.asarray(state.sigma), np.asarray(state.theta)

    def block_shape(self, images: np.ndarray, symmetric: bool) -> tuple[int, int]:
        area, layers = images.shape[2] * images.shape[3], max(1, convolutions_of(self.group.trunk))
        side = min(BLOCK_LIMIT, max(16, BLOCK_TABLE_BYTES // (4 * area * layers * images.itemsize) // 16 * 16))
        work = max(1, int(BLOCK_ENTRY_LAYERS // (layers * (area if self.group.equal_only else area**2))))
        columns = min(side, max(16, int(work**0.5) // 16 * 16))
        return (columns, columns) if symmetric else (min(side, max(1, work // columns)), columns)


@dataclass(frozen=True)
class Scaled:
    """Images without the binary orders of their pixels, where every layer of the trunk is homogeneous."""

    images: np.ndarray
    orders: np.ndarray

    @classmethod
    def of(cls, images: np.ndarray, trunk: Sequence[Layer]) -> Scaled:
        if all(layer.homogeneous for layer in trunk):
            return cls(*scaled_to_one(images))
        return cls(images, np.zeros(len(images), dtype=np.int32))


@dataclass(frozen=True)
class Numbers:
    """kernels.network.Maths behind the positions; first, second: the variances of both images."""

    first: np.ndarray | None
    second: np.ndarray | None
    tangent: bool

    def activated(self, state: Covariances, layer: ActivationLayer) -> Covariances:
        assert self.first is not None and self.second is not None
        matrix = np.ndim(state.sigma) == 2
        first, second = (self.first[:, None], self.second[None, :]) if matrix else (self.first, self.second)
        k1, k0 = pair_of(layer.record)(state.sigma, first, second)
        if state.theta is None or not self.tangent:
            return Covariances(k1, None if state.theta is None else np.zeros_like(k1))
        return Covariances(k1, state.theta * k0)

    def window_sum(self, maps: Any, layer: Any) -> Any:
        raise AssertionError("there are no positions any more")

    window_mean = window_sum

    def mean_of_all(self, maps: Any) -> Any:
        raise AssertionError("there are no positions any more")

    mean_of_equal = mean_of_all
