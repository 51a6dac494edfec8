"""In which precision a kernel is computed, and which entries again in double.

A tangent kernel depends on the angle between two patches, which is sqrt(2 (1 - cosine)) if they are almost parallel,
and a cosine in float32 is good to some 1e-7. Worse, a cosine near 1 stays there from layer to layer and the rounding of
every layer adds up, with one sign where an image is smooth. Twenty convolutions on raw photographs of the sky leave
1e-4. So every backend says how much of an entry comes from angles that are too small for the depth, and where it is
much the entry is computed in float64. On standardised images that is next to none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tangentbench.errors import UnknownName
from tangentbench.kernels._backends.contract import Values
from tangentbench.kernels.network import Layer, Size, flat, orders_behind

Sums = Callable[[np.ndarray, np.ndarray | None, float], Values]
"""A backend for given layers: images x1, x2 (None: x1 itself) and a sine to doubt below."""

SMALLEST_SINE = 4e-3
"""An angle of this size is good to 1e-5 after one layer, with a cosine off by 6e-8."""
SINE_PER_SQUARED_LAYER = 1.5e-4
"""The cosine's error grows with every layer, and every layer adds its angle's error to the kernel."""
DOUBTFUL_SHARE = 1 / 32
"""Share of an entry that may come from doubtful angles; one that is lost altogether costs 3e-4 at its position."""
DENSE_SHARE = 1 / 4
"""Share of doubtful entries from which a rectangle around them is computed as a whole."""
FLOAT32_RANGE = 2.0**40
"""Largest pixel, and one over the smallest, for which a network with biases is computed in float32."""
FLOAT32_LAYERS = 50
"""Convolutions beyond which rounding and the decay at the images' edges ask for double."""
FLOAT32_ORDERS, FLOAT64_ORDERS = 40.0, 700.0
"""Binary orders that variances may lose or gain on their way through the trunk."""


def computing_type(x1: Any, x2: Any, dtype: Any) -> np.dtype[Any]:
    """The precision asked for, or that of the images: float64 where either has more than float32 holds."""
    if dtype is None:
        kinds = [np.asarray(x).dtype for x in (x1, x2) if x is not None]
        double = any(kind.kind == "f" and kind.itemsize > 4 for kind in kinds)
        return np.dtype(np.float64 if double else np.float32)
    try:
        wanted: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise UnknownName("dtype", str(dtype), ["float32", "float64"]) from error
    if wanted not in (np.float32, np.float64):
        raise UnknownName("dtype", wanted.name, ["float32", "float64"])
    return wanted


def inner_type(
    wanted: np.dtype[Any], images: Sequence[np.ndarray], trunk: Sequence[Layer], size: Size
) -> np.dtype[Any]:
    """float64 where float32 cannot hold what lies between the layers, else what was wanted."""
    if wanted == np.float64 or convolutions_of(trunk) > FLOAT32_LAYERS or not within(trunk, size, FLOAT32_ORDERS):
        return np.dtype(np.float64)
    if all(layer.homogeneous for layer in trunk):
        return wanted
    if any(layer.operation == "activation" and not layer.homogeneous for layer in flat(trunk)):
        return np.dtype(np.float64)
    largest = [np.abs(one).max(axis=(1, 2, 3)) for one in images if len(one)]
    far = any(((one > FLOAT32_RANGE) | ((one > 0) & (one < 1 / FLOAT32_RANGE))).any() for one in largest)
    return np.dtype(np.float64) if far else wanted


def within(trunk: Sequence[Layer], size: Size, orders: float) -> bool:
    """Whether variances keep to `orders` binary orders around those of the images on their way through the trunk."""
    reached = np.cumsum([0.0, *orders_behind(trunk, size)])
    return bool(np.abs(reached).max() < orders)


def convolutions_of(trunk: Sequence[Layer]) -> int:
    return sum(layer.operation == "convolution" for layer in flat(trunk))


def repaired(
    x1: np.ndarray, x2: np.ndarray | None, trunk: Sequence[Layer], sums: Sums, *, tangent: bool, equal_only: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Sigma and Theta, (taps, n1, n2) each: float32 images give 1e-5 or better, float64 images 1e-9.

    equal_only: whether a position meets only itself, so that an image has no angles with itself at all.
    """
    if x1.dtype != np.float32 or not tangent:
        values = sums(x1, x2, 0.0)
        return values.nngp, values.ntk
    values = sums(x1, x2, max(SMALLEST_SINE, SINE_PER_SQUARED_LAYER * convolutions_of(trunk) ** 2))
    nngp, ntk = values.nngp, values.ntk
    doubtful: np.ndarray = np.asarray((values.doubt > DOUBTFUL_SHARE).any(axis=0))
    if x2 is not None and equal_only:
        leave_identical(doubtful, x1, x2)
    if not doubtful.any():
        return nngp, ntk
    rows, columns = (np.flatnonzero(doubtful.any(axis=axis)) for axis in (1, 0))
    if doubtful[np.ix_(rows, columns)].mean() > DENSE_SHARE:
        pieces = [(rows, columns)]
    else:
        pieces = [(np.array([row]), np.flatnonzero(doubtful[row])) for row in rows]
    second = x1 if x2 is None else x2
    for some_rows, some_columns in pieces:
        whole_square = x2 is None and np.array_equal(some_rows, some_columns)
        columns_in_double = None if whole_square else second[some_columns].astype(np.float64)
        precise = sums(x1[some_rows].astype(np.float64), columns_in_double, 0.0)
        here = np.ix_(some_rows, some_columns)
        for whole, part in ((nngp, precise.nngp), (ntk, precise.ntk)):
            for tap in range(len(whole)):
                whole[tap][here] = np.where(doubtful[here], part[tap], whole[tap][here])
    return nngp, ntk


def leave_identical(doubtful: np.ndarray, x1: np.ndarray, x2: np.ndarray) -> None:
    """Take out entries of an image with itself: their angles are zero, which no rounding touches."""
    for i, j in np.argwhere(doubtful):
        if x1[i, 0, 0, 0] == x2[j, 0, 0, 0] and np.array_equal(x1[i], x2[j]):
            doubtful[i, j] = False
