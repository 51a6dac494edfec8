"""Laws of weights: standardised, and drawn as their quantile functions say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import spearmanr

from tangentbench.errors import UnknownName
from tangentbench.networks.weight_distributions import (
    DISTRIBUTIONS,
    coupled,
    draw_weights,
    truncated_gaussian,
    weight_distribution,
)

every_distribution = pytest.mark.parametrize("name", DISTRIBUTIONS)


@every_distribution
def test_mean_is_zero_and_variance_one(name: Any) -> None:
    quantile = DISTRIBUTIONS[name].quantile
    halves = [(0.0, 0.5), (0.5, 1.0)]
    mean = sum(quad(lambda u: float(quantile(np.array(u))), *half, limit=200)[0] for half in halves)
    second = sum(quad(lambda u: float(quantile(np.array(u))) ** 2, *half, limit=200)[0] for half in halves)
    assert mean == pytest.approx(0, abs=1e-7)
    assert second == pytest.approx(1, rel=1e-5)


@every_distribution
def test_draws_follow_the_quantile_function(name: Any) -> None:
    count = 40_000
    drawn = np.sort(draw_weights(DISTRIBUTIONS[name], (count,), torch.Generator().manual_seed(5)).double().numpy())
    grid = np.linspace(1e-6, 1 - 1e-6, 200_001)
    expected = np.interp(drawn, DISTRIBUTIONS[name].quantile(grid), grid)
    kolmogorov = np.abs(expected - (np.arange(count) + 0.5) / count).max()
    assert kolmogorov < 1.95 / np.sqrt(count)  # passed by a right distribution in 999 of 1,000 draws


@every_distribution
def test_symmetry_is_as_it_is_said(name: Any) -> None:
    u = np.linspace(0.01, 0.49, 20)
    mirrored = np.allclose(DISTRIBUTIONS[name].quantile(u), -DISTRIBUTIONS[name].quantile(1 - u))
    assert mirrored == DISTRIBUTIONS[name].symmetric


@pytest.mark.parametrize(("name", "order"), [("cubecauchy", 3), ("quintcauchy", 5)])
def test_tails_of_cauchy_roots_end_the_moments_where_they_say(name: str, order: int) -> None:
    """P(|X| > x) falls as x^-order, so that moments of that order just do not exist."""
    tail = np.array([1e-6, 1e-9])
    far = DISTRIBUTIONS[name].quantile(1 - tail)
    assert np.log(far[1] / far[0]) == pytest.approx(np.log(tail[0] / tail[1]) / order, rel=1e-4)
    assert DISTRIBUTIONS[name].finite_moments == order


def test_rare_large_draws_are_not_cut_off() -> None:
    """Of 3 million draws the largest Cauchy value is near 10^6; single-precision uniforms end at 5 10^6."""
    drawn = draw_weights(DISTRIBUTIONS["cubecauchy"], (3_000_000,), torch.Generator().manual_seed(0)).double()
    largest = (drawn.abs().max() * 2**0.5) ** 3
    assert 2e5 < largest < 2e8


def test_truncation_keeps_inside() -> None:
    distribution = truncated_gaussian(1.0)
    drawn = draw_weights(distribution, (10_000,), torch.Generator().manual_seed(1))
    end = distribution.quantile(np.array(1 - 1e-12))
    assert drawn.abs().max() <= end * (1 + 1e-6)
    assert drawn.var() == pytest.approx(1, abs=0.05)


def test_unknown_distribution_is_named() -> None:
    with pytest.raises(UnknownName, match="weight distribution 'lapalce': did you mean laplace"):
        weight_distribution("lapalce")


def test_coupled_distributions_are_large_together_and_still_themselves() -> None:
    drawn = {
        name: draw_weights(coupled(DISTRIBUTIONS[name]), (20_000,), torch.Generator().manual_seed(3)).double().numpy()
        for name in ("gaussian", "exponential")
    }
    assert spearmanr(drawn["gaussian"], drawn["exponential"]).statistic > 1 - 1e-9
    assert drawn["exponential"].min() >= -1
    assert drawn["exponential"].var() == pytest.approx(1, abs=0.06)
