"""How far points form clusters: silhouettes of labelled points, rays through vectors. And where a curve is flat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RESTARTS, ROUNDS = 30, 200
NO_NEURON = 1e-6
"""Vectors shorter than this share of the longest have no direction worth naming."""


def silhouettes(points: Array, labels: NDArray[np.int64]) -> Array:
    """(b - a) / max(a, b) of every point, (N,): a its mean distance to others of its label, b to the nearest label.

    `points` (N, d), `labels` (N,) with at least two points a label. Positive where a point's own label is nearest.
    """
    apart = np.linalg.norm(points[:, None, :] - points[None, :, :], axis=2)
    names, own = np.unique(labels, return_inverse=True)
    member = (own[:, None] == np.arange(len(names))).astype(float)
    sums, counts = apart @ member, member.sum(axis=0)
    places = np.arange(len(points))
    inside = sums[places, own] / (counts[own] - 1)
    others = sums / counts
    others[places, own] = np.inf
    outside = others.min(axis=1)
    return np.asarray((outside - inside) / np.maximum(inside, outside))


@dataclass(frozen=True, eq=False)
class Rays:
    """Unit vectors (k, d) from the origin, and how each fitted vector lies to its nearest ray."""

    directions: Array
    nearest: NDArray[np.int64]
    """(n,): the ray of each vector; -1 for vectors without length."""
    degrees: Array
    """(n,): the angle to it; not a number for vectors without length."""
    weights: Array
    """(n,): the vectors' squared norms over their sum."""

    def share_within(self, degrees: float) -> float:
        """The share of all squared norm within this angle of a ray."""
        return float(self.weights[np.nan_to_num(self.degrees, nan=np.inf) <= degrees].sum())


def fit_rays(vectors: Array, count: int, seed: int = 0) -> Rays:
    """The `count` rays with the largest squared norm along them: k-means on the sphere, the best of many starts.

    `vectors` (n, d). Each vector counts with its squared norm, and v and -v are different directions.
    """
    norms = np.linalg.norm(vectors, axis=1)
    alive = norms > NO_NEURON * norms.max()
    weights, units = norms[alive] ** 2, vectors[alive] / norms[alive, None]
    generator = np.random.default_rng(seed)
    trials = [settle(units, weights, spread_start(units, weights, count, generator)) for _ in range(RESTARTS)]
    directions = max(trials, key=lambda rays: float(weights @ (units @ rays.T).max(axis=1)))
    cosines = units @ directions.T
    nearest = np.full(len(vectors), -1)
    nearest[alive] = cosines.argmax(axis=1)
    degrees = np.full(len(vectors), np.nan)
    degrees[alive] = np.degrees(np.arccos(np.clip(cosines.max(axis=1), -1.0, 1.0)))
    return Rays(directions, nearest, degrees, norms**2 / np.sum(norms**2))


def spread_start(units: Array, weights: Array, count: int, generator: np.random.Generator) -> Array:
    """Vectors drawn one after the other, each the likelier the farther it lies from those before (k-means++)."""
    chosen = [units[generator.choice(len(units), p=weights / weights.sum())]]
    while len(chosen) < count:
        chance = weights * np.maximum(1.0 - (units @ np.array(chosen).T).max(axis=1), 0.0)
        if chance.sum() <= 0:
            chosen.append(chosen[0])
        else:
            chosen.append(units[generator.choice(len(units), p=chance / chance.sum())])
    return np.array(chosen)


def settle(units: Array, weights: Array, rays: Array) -> Array:
    """Move each ray to the mean of its vectors until none changes its ray."""
    before = np.full(len(units), -1)
    for _ in range(ROUNDS):
        nearest = (units @ rays.T).argmax(axis=1)
        if (nearest == before).all():
            break
        before = nearest
        for ray in range(len(rays)):
            total = weights[nearest == ray] @ units[nearest == ray]
            if np.linalg.norm(total) > 0:
                rays[ray] = total / np.linalg.norm(total)
    return rays


def rays_needed(vectors: Array, degrees: float, share: float, most: int = 20, seed: int = 0) -> int:
    """The fewest rays with `share` of the squared norm within `degrees`; `most` + 1 where that many do not suffice."""
    for count in range(1, most + 1):
        if fit_rays(vectors, count, seed).share_within(degrees) >= share:
            return count
    return most + 1


def plateau_start(
    widths: Sequence[int], losses: Sequence[float], tolerance: float, *, of_the_drop: bool = False
) -> int:
    """The smallest width whose loss is within a share `tolerance` of the smallest of all.

    The least loss cannot grow with the width (Proposition 5.4.1): a wider network that trained to more than a narrower
    one has missed its minimum, and does not move the plateau's start. With `of_the_drop` the share is that of the
    distance between the largest and the smallest loss, which is what the eye sees on a linear axis.
    """
    scale = max(losses) - min(losses) if of_the_drop else min(losses)
    limit = min(losses) + tolerance * scale
    return min(width for width, loss in zip(widths, losses, strict=True) if loss <= limit)
