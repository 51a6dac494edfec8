"""Small image batches and the tolerance each precision is held to."""

from __future__ import annotations

import numpy as np

TOLERANCE = {"float32": 1e-5, "float64": 1e-9}


def images(count: int, height: int = 6, width: int = 5, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, height, width, channels))


def nearly_constant(count: int, side: int, seed: int = 0) -> np.ndarray:
    """Grey images with a breath of noise: float32 cannot hold the angles between their patches."""
    return (0.5 + 1e-3 * images(count, side, side, seed=seed)).astype(np.float32)


def channels_first(batch: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(batch.transpose(0, 3, 1, 2))


def relative_error(value: np.ndarray, reference: np.ndarray) -> float:
    """Largest error against the largest reference value; zero kernels must be met exactly."""
    largest = np.abs(reference).max()
    error = np.abs(np.asarray(value, np.float64) - reference).max()
    return float(error / largest) if largest > 0 else float(error)
