"""What network a convolutional kernel belongs to, checked once and handed to every backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tangentbench.errors import TangentbenchError, UnknownName

Pooling = Literal["gap", "flatten"]
Kind = Literal["ntk", "nngp"]


class InvalidKernelInput(TangentbenchError):
    """Images or settings from which no kernel can be computed."""


@dataclass(frozen=True)
class CntkSpec:
    """A ReLU network of `depth - 1` convolutions (stride 1, zero padding) and one fully connected layer.

    train_first_last: whether the first convolution and the last layer are trained; where they are not, their
        gradients are left out of the tangent kernel (section 4.2 of the paper). It does not matter for "nngp".
    """

    depth: int
    pooling: Pooling
    kind: Kind
    train_first_last: bool
    filter: int

    @classmethod
    def checked(cls, depth: Any, pooling: Any, kind: Any, train_first_last: Any, filter: Any) -> CntkSpec:
        if pooling not in ("gap", "flatten"):
            raise UnknownName("pooling", str(pooling), ["gap", "flatten"])
        if kind not in ("ntk", "nngp"):
            raise UnknownName("kind", str(kind), ["ntk", "nngp"])
        if not is_integer(depth) or depth < 2:
            raise InvalidKernelInput(
                f"depth is {depth!r}: it counts the convolutions and the fully connected layer, so it is at least 2"
            )
        if not is_integer(filter) or filter < 1 or filter % 2 == 0:
            raise InvalidKernelInput(f"filter is {filter!r}: it is the side of a filter with a middle, so 1, 3, 5, ...")
        if train_first_last is None:
            train_first_last = pooling == "flatten"
        return cls(int(depth), pooling, kind, bool(train_first_last), int(filter))

    @property
    def convolutions(self) -> int:
        return self.depth - 1


def is_integer(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)
