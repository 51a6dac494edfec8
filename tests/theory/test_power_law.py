"""Power laws: exact on exact data, and honest about their error."""

import numpy as np
import pytest

from tangentbench.theory.power_law import fit_power_law


def test_exact_points_give_the_law_and_no_error() -> None:
    x = np.array([4.0, 8.0, 16.0, 64.0])
    law = fit_power_law(x, 0.3 * x**2)
    assert law.exponent == pytest.approx(2.0, abs=1e-12)
    assert law.exponent_error == pytest.approx(0.0, abs=1e-10)
    assert law.at(1e6) == pytest.approx(0.3e12, rel=1e-9)
    assert law.interval(1e6) == pytest.approx((0.3e12, 0.3e12), rel=1e-6)


def test_two_points_say_nothing_of_the_error() -> None:
    law = fit_power_law([1.0, 2.0], [1.0, 8.0])
    assert law.exponent == pytest.approx(3.0)
    assert law.exponent_error == np.inf
    assert law.interval(10.0) == (0.0, np.inf)


def test_intervals_cover_as_often_as_they_say() -> None:
    """95 % of the intervals hold the true exponent, and 95 % a new measurement at the target."""
    rng = np.random.default_rng(0)
    x = np.array([4.0, 8.0, 16.0, 32.0])
    exponents = targets = 0
    for _ in range(2000):
        law = fit_power_law(x, x**2 * np.exp(0.1 * rng.normal(size=4)))
        exponents += abs(law.exponent - 2) < law.exponent_error
        low, high = law.interval(1000.0)
        targets += low < 1e6 * np.exp(0.1 * rng.normal()) < high
    assert 0.93 < exponents / 2000 < 0.97
    assert 0.93 < targets / 2000 < 0.97
