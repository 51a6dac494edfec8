"""The two infinite-width kernels of a deep network, depth by depth, with the paper's bounds on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tangentbench.studies.conditioning.measure.families import NORMALISED, UNCENTRED
from tangentbench.studies.conditioning.settings import DeepKernels
from tangentbench.theory.activations import Activation
from tangentbench.theory.conditioning import (
    collapse_bound,
    corollary4,
    corollary6,
    corollary8,
    corollary10,
    correlation_bound,
    fixed_point,
    tangent_correlation_bound,
    uncentred_bound,
)
from tangentbench.theory.depth_kernels import kernels_by_depth, tangent_diagonal
from tangentbench.theory.layer_map import LayerMap

_EXTRA_LAYERS = {"proof": 0, "definition": -1}
"""How many activations a network of L layers applies, besides L."""
_VANISHED = 1e-100
"""Once all correlations are below this, deeper layers are left out."""
_RESOLUTION = 1e-13
"""The distance of two correlations that are not small is not known better than this; smaller bounds are not checked."""


@dataclass(frozen=True)
class KernelBounds:
    """The paper's bounds on one of the two kernels."""

    tangent: bool
    correlation: Callable[..., np.ndarray]
    """Of depth, delta, mu."""
    corollary_a: Callable[..., np.ndarray]
    """The corollary under Assumption A, as bound on kappa - 1, of depth, delta, mu, n."""
    corollary_b: Callable[..., np.ndarray]
    """The corollary under Assumption B."""


TOP_LAYER = KernelBounds(False, correlation_bound, corollary4, corollary8)
TANGENT = KernelBounds(True, tangent_correlation_bound, corollary6, corollary10)


def recorded_depths(settings: DeepKernels) -> list[int]:
    """Evenly spaced in the logarithm."""
    return [int(depth) for depth in np.unique(np.geomspace(1, settings.depth_max, settings.records).round())]


def activations_applied(settings: DeepKernels, depth: int) -> int:
    """The number of activations that a network of this depth applies."""
    return depth + _EXTRA_LAYERS[settings.activations_applied]


class AtDepth(NamedTuple):
    """The entries of a kernel at one depth, over its diagonal, and the logarithm of the diagonal."""

    depth: int
    entries: np.ndarray
    log_diagonal: float
    recorded: bool


@dataclass(frozen=True)
class DeepKernel:
    """A kernel of networks of any depth with one activation."""

    bounds: KernelBounds
    settings: DeepKernels
    family: str
    sigma: Activation
    layer: LayerMap

    @property
    def limit(self) -> float:
        """What all correlations tend to with depth."""
        return fixed_point(self.layer) if self.family == UNCENTRED and not self.bounds.tangent else 0.0

    def by_depth(self, rho: np.ndarray) -> Iterator[AtDepth]:
        """The kernel at depth 1, 2, ... on inputs of correlations `rho`."""
        recorded = set(recorded_depths(self.settings))
        by_layer = enumerate(self._by_layer(rho))
        layers, (entries, log_diagonal) = next(by_layer)
        for depth in range(1, self.settings.depth_max + 1):
            while layers < activations_applied(self.settings, depth):
                layers, (entries, log_diagonal) = next(by_layer)
            yield AtDepth(depth, entries, log_diagonal, depth in recorded)
            if np.abs(entries).max() < _VANISHED:
                return

    def _by_layer(self, rho: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
        """Entries and logarithm of the diagonal after 0, 1, ... activations."""
        for kernels in kernels_by_depth(self.layer, rho, tangent=self.bounds.tangent):
            yield (kernels.top if kernels.tangent is None else kernels.tangent), kernels.log_diagonal

    def entry_bounds(self, delta: float) -> np.ndarray:
        """The bound on entries at depth 0, 1, ..., depth_max; infinite where the paper has none."""
        depths = np.arange(self.settings.depth_max + 1)
        if self.family == NORMALISED:
            return self.bounds.correlation(depths, delta, self.layer.nonaffinity)
        if self.bounds.tangent:
            return np.full(len(depths), np.inf)
        reached = fixed_point(self.layer) < 1.0
        bound = uncentred_bound(depths, delta, self.layer) if reached else collapse_bound(depths, self.layer)
        return np.where(bound > _RESOLUTION, bound, np.inf)

    def diagonal_difference(self, depth: int, log_diagonal: float) -> float | None:
        """The relative distance of the diagonal from its closed form; None where that form would overflow."""
        if log_diagonal > np.log(np.finfo(float).max) / 2:
            return None
        layers = activations_applied(self.settings, depth)
        return float(abs(np.exp(log_diagonal) / tangent_diagonal(self.layer.slope_at_one, layers) - 1.0))
