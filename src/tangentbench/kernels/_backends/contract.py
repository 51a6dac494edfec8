"""What every backend returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Values:
    """Behind the layer that ends the positions, for each tap: float64, (taps, n1, n2) each.

    doubt: the share of each tangent kernel that comes from angles with a sine below the one asked about.
    """

    nngp: np.ndarray
    ntk: np.ndarray
    doubt: np.ndarray


def share(doubtful: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """The doubtful part of each entry, none where the entry is zero."""
    return np.asarray(np.divide(doubtful, whole, out=np.zeros_like(whole), where=whole != 0))
