"""The CNTK with entries computed again in double precision where single precision cannot hold their angles.

The tangent kernel depends on the angle between two patches, which is sqrt(2 (1 - cosine)) if they are almost parallel,
and a cosine in float32 is good to some 1e-7. Worse, a cosine near 1 stays there from layer to layer and the rounding of
every layer adds up, with one sign where an image is smooth. Twenty convolutions on raw photographs of the sky leave
1e-4. So every backend says how much of an entry comes from angles that are too small for the depth, and where it is
much the entry is computed in float64. On standardised images that is next to none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tangentbench.kernels.architecture import CntkSpec

Rectangle = Callable[[np.ndarray, np.ndarray | None, float], tuple[np.ndarray, np.ndarray]]
"""A backend: from images x1, x2 (None: x1 itself) and a sine to the kernel (n1, n2) and the share of each entry that
comes from angles of the last layer with a smaller sine. An image's angles with itself count as none where x2 is None.
"""

SMALLEST_SINE = 4e-3
"""An angle of this size is good to 1e-5 after one layer, with a cosine off by 6e-8."""
SINE_PER_SQUARED_LAYER = 1.5e-4
"""The cosine's error grows with every layer, and every layer adds its angle's error to the kernel."""
DOUBTFUL_SHARE = 1 / 32
"""Share of an entry that may come from doubtful angles; one that is lost altogether costs 3e-4 at its position."""
DENSE_SHARE = 1 / 4
"""Share of doubtful entries from which a rectangle around them is computed as a whole."""


def share(doubtful: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """The doubtful part of each entry, none where the entry is zero."""
    return np.asarray(np.divide(doubtful, whole, out=np.zeros_like(whole), where=whole > 0))


def rectangle(x1: np.ndarray, x2: np.ndarray | None, architecture: CntkSpec, compute: Rectangle) -> np.ndarray:
    """Kernel of every image of x1 with every image of x2 (with x1 itself if None): float64, (n1, n2).

    x1, x2: (n, channels, height, width). float32 images give 1e-5 or better, float64 images 1e-9.
    """
    if x1.dtype != np.float32 or architecture.kind != "ntk":
        return compute(x1, x2, 0.0)[0]
    limit = max(SMALLEST_SINE, SINE_PER_SQUARED_LAYER * architecture.convolutions**2)
    values, doubt = compute(x1, x2, limit)
    doubtful = doubt > DOUBTFUL_SHARE
    if x2 is not None and architecture.pooling == "flatten":
        leave_identical(doubtful, x1, x2)
    if not doubtful.any():
        return values
    rows, columns = (np.flatnonzero(doubtful.any(axis=axis)) for axis in (1, 0))
    if doubtful[np.ix_(rows, columns)].mean() > DENSE_SHARE:
        pieces = [(rows, columns)]
    else:
        pieces = [(np.array([row]), np.flatnonzero(doubtful[row])) for row in rows]
    second = x1 if x2 is None else x2
    for some_rows, some_columns in pieces:
        whole_square = x2 is None and np.array_equal(some_rows, some_columns)
        columns_in_double = None if whole_square else second[some_columns].astype(np.float64)
        precise = compute(x1[some_rows].astype(np.float64), columns_in_double, 0.0)[0]
        here = np.ix_(some_rows, some_columns)
        values[here] = np.where(doubtful[here], precise, values[here])
    return values


def leave_identical(doubtful: np.ndarray, x1: np.ndarray, x2: np.ndarray) -> None:
    """Take out entries of an image with itself: their angles are zero, which no rounding touches."""
    for i, j in np.argwhere(doubtful):
        if x1[i, 0, 0, 0] == x2[j, 0, 0, 0] and np.array_equal(x1[i], x2[j]):
            doubtful[i, j] = False
