"""Distributions of mean 0 and variance 1 that weights are drawn from (thesis, appendices A.13 and A.14).

Each has its quantile function, which couples distributions through common uniform numbers, and a fast way to fill a
tensor. A new distribution is one more entry of DISTRIBUTIONS and of the names in tensor_programs/settings.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import ndtr, ndtri
from torch import Tensor

from tangentbench.errors import UnknownName

_TRUNCATION_SIGMAS = 2.0
"""Where A.13 cuts the Gaussian, in its standard deviations."""
GAUSSIAN = "gaussian"
_UNIFORM_MARGIN = 2.0**-53
"""Uniform numbers keep this far from 0 and 1, where quantiles are infinite."""


@dataclass(frozen=True)
class WeightDistribution:
    """Standardised: mean 0, variance 1."""

    name: str
    quantile: Callable[[np.ndarray], np.ndarray]
    """From (0, 1) to the reals, elementwise."""
    fill: Callable[[Tensor, torch.Generator], Tensor]
    """Overwrite a tensor with independent draws; returns it."""
    finite_moments: float = math.inf
    """Absolute moments of order below this exist."""
    symmetric: bool = True


def _gaussian_in(out: Tensor, generator: torch.Generator) -> Tensor:
    return out.normal_(generator=generator)


def truncated_gaussian(sigmas: float = _TRUNCATION_SIGMAS) -> WeightDistribution:
    """A Gaussian kept inside +-`sigmas`, divided by the standard deviation that is left."""
    inside = 2 * float(ndtr(sigmas)) - 1
    density = math.exp(-(sigmas**2) / 2) / math.sqrt(2 * math.pi)
    deviation = math.sqrt(1 - 2 * sigmas * density / inside)

    def fill(out: Tensor, generator: torch.Generator) -> Tensor:
        out.uniform_(-inside, inside, generator=generator).erfinv_()
        return out.mul_(math.sqrt(2) / deviation)

    return WeightDistribution(
        name="truncated_gaussian",
        quantile=lambda u: ndtri(0.5 + inside * (u - 0.5)) / deviation,
        fill=fill,
    )


def _uniform_in(out: Tensor, generator: torch.Generator) -> Tensor:
    return out.uniform_(-math.sqrt(3), math.sqrt(3), generator=generator)


def _laplace_in(out: Tensor, generator: torch.Generator) -> Tensor:
    signs = torch.empty_like(out).uniform_(-1, 1, generator=generator)
    return out.exponential_(generator=generator).copysign_(signs).mul_(math.sqrt(0.5))


def _exponential_in(out: Tensor, generator: torch.Generator) -> Tensor:
    return out.exponential_(generator=generator).sub_(1.0)


def _cauchy_root(name: str, order: int) -> WeightDistribution:
    """The real root of odd `order` of a Cauchy variable: |x| has the moments below `order`.

    E|C|^p = 1 / cos(p pi / 2) for a Cauchy variable C, so that the variance is 1 / cos(pi / order).
    """
    deviation = math.cos(math.pi / order) ** -0.5

    def fill(out: Tensor, generator: torch.Generator) -> Tensor:
        # in double precision: single-precision uniform numbers end at 2^-24, which cuts off half a percent of the
        # cube root's variance
        drawn = torch.empty(out.shape, dtype=torch.float64).cauchy_(generator=generator)
        roots = drawn.abs().pow_(1.0 / order).copysign_(drawn)
        return out.copy_(roots.div_(deviation))

    return WeightDistribution(
        name=name,
        quantile=lambda u: _root_of(np.tan(np.pi * (u - 0.5)), order) / deviation,
        fill=fill,
        finite_moments=order,
    )


def _root_of(values: np.ndarray, order: int) -> np.ndarray:
    return np.asarray(np.sign(values) * np.abs(values) ** (1.0 / order))


DISTRIBUTIONS: Mapping[str, WeightDistribution] = {
    one.name: one
    for one in (
        WeightDistribution(GAUSSIAN, ndtri, _gaussian_in),
        truncated_gaussian(),
        WeightDistribution("uniform", lambda u: math.sqrt(12) * (u - 0.5), _uniform_in),
        WeightDistribution(
            "laplace",
            lambda u: -np.sign(u - 0.5) * np.log1p(-2 * np.abs(u - 0.5)) / math.sqrt(2),
            _laplace_in,
        ),
        WeightDistribution("exponential", lambda u: -np.log1p(-u) - 1, _exponential_in, symmetric=False),
        _cauchy_root("cubecauchy", 3),
        _cauchy_root("quintcauchy", 5),
    )
}


def weight_distribution(name: str) -> WeightDistribution:
    if name not in DISTRIBUTIONS:
        raise UnknownName("weight distribution", name, DISTRIBUTIONS)
    return DISTRIBUTIONS[name]


def coupled(distribution: WeightDistribution) -> WeightDistribution:
    """Drawn as quantiles of uniform numbers: from one stream, weights of two distributions are large together."""

    def fill(out: Tensor, generator: torch.Generator) -> Tensor:
        uniforms = torch.rand(out.shape, generator=generator, dtype=torch.float64)
        inside = uniforms.clamp_(_UNIFORM_MARGIN, 1 - _UNIFORM_MARGIN).numpy()
        return out.copy_(torch.from_numpy(np.asarray(distribution.quantile(inside))))

    return replace(distribution, fill=fill)


def draw_weights(distribution: WeightDistribution, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Independent float32 draws."""
    return distribution.fill(torch.empty(shape), generator)
