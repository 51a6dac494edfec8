"""The shape of a fully connected network with hidden layers of one width; light, for estimates ask it too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float64]


@dataclass(frozen=True)
class MlpShape:
    """`depth` layers of weights: from `inputs` through depth - 1 hidden layers of `width` units to `outputs`."""

    depth: int
    width: int
    inputs: int
    outputs: int = 1

    @property
    def layers(self) -> list[tuple[int, int]]:
        """(outputs, inputs) of each layer of weights, without biases."""
        sizes = [self.inputs, *[self.width] * (self.depth - 1), self.outputs]
        return [(after, before) for before, after in pairwise(sizes)]

    @property
    def products(self) -> list[int]:
        """Multiplications that one example costs in each layer, as many as it has weights."""
        return [rows * columns for rows, columns in self.layers]

    @property
    def parameters(self) -> int:
        return sum(self.products)

    def split(self, weights: Weights) -> list[Weights]:
        """The layers (..., outputs, inputs) of weights (..., P), as views."""
        parts = np.split(weights, np.cumsum(self.products)[:-1], axis=-1)
        return [part.reshape(*weights.shape[:-1], *sizes) for part, sizes in zip(parts, self.layers, strict=True)]

    def join(self, layers: Sequence[Weights]) -> Weights:
        """The inverse of `split`."""
        return np.concatenate([layer.reshape(*layer.shape[:-2], -1) for layer in layers], axis=-1)
