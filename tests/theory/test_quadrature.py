"""Gaussian integrals against their exact values, smooth and not."""

import math
from typing import Any

import numpy as np
import pytest

from tangentbench.theory.quadrature import correlated_expectation, expectation, gaussian_rule, pointwise

EXACT = 1e-12


@pytest.mark.parametrize("power", [0, 2, 4, 10, 20])
def test_even_moments_are_double_factorials(power: int) -> None:
    exact = math.prod(range(1, power, 2))
    assert expectation(lambda x: x**power) == pytest.approx(exact, rel=EXACT)


def test_exponential_moments() -> None:
    for rate in (-2.0, 0.5, 2.0):
        assert expectation(lambda x, rate=rate: np.exp(rate * x)) == pytest.approx(math.exp(rate**2 / 2), rel=EXACT)  # type: ignore[misc]


@pytest.mark.parametrize("kink", [-20.0, -1.5975, 0.0, 0.123, 3.0])
def test_a_jump_is_integrated_exactly_when_its_place_is_given(kink: float) -> None:
    upper_tail = 0.5 * math.erfc(kink / math.sqrt(2))
    assert expectation(lambda x: (x > kink).astype(float), (kink,)) == pytest.approx(upper_tail, rel=1e-11)


def test_without_the_split_a_jump_inside_a_panel_is_not_exact() -> None:
    kink = 0.123
    unsplit = expectation(lambda x: (x > kink).astype(float))
    assert abs(unsplit - 0.5 * math.erfc(kink / math.sqrt(2))) > 1e-6


def test_order_of_kinks_does_not_matter() -> None:
    def function(x: Any) -> Any:
        return np.abs(x - 1) + np.abs(x + 2)

    assert expectation(function, (1.0, -2.0)) == expectation(function, (-2.0, 1.0))


def test_rule_cannot_be_overwritten() -> None:
    nodes, _ = gaussian_rule()
    with pytest.raises(ValueError):
        nodes[0] = 0.0


@pytest.mark.parametrize("rho", [-1.0, -0.99999, -0.7, 0.0, 0.2, 0.999, 1 - 1e-9, 1.0])
def test_quadrant_probability(rho: float) -> None:
    """P(X > 0, Y > 0) = 1/4 + arcsin(rho) / (2 pi), also where the two are almost equal."""
    found = correlated_expectation(lambda x: (x > 0).astype(float), rho, (0.0,))
    assert found == pytest.approx(0.25 + math.asin(rho) / (2 * math.pi), abs=1e-11)


def test_several_kinks_in_two_dimensions() -> None:
    """A box: P(|X| < a, |Y| < a) for independent X, Y is the square of one side."""
    edge = 0.8
    side = math.erf(edge / math.sqrt(2))
    found = correlated_expectation(lambda x: (np.abs(x) < edge).astype(float), 0.0, (-edge, edge))
    assert found == pytest.approx(side**2, abs=EXACT)


def test_correlation_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="between -1 and 1"):
        correlated_expectation(np.asarray, 1.5)
    with pytest.raises(ValueError, match="strictly"):
        correlated_expectation(np.asarray, 1.0, weight=lambda x, z: z)


def test_pointwise_keeps_the_shape() -> None:
    assert pointwise(lambda x: 2 * x, np.ones((2, 3))).shape == (2, 3)
    assert pointwise(lambda x: 2 * x, 4.0) == 8.0
