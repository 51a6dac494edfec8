"""Wasserstein distances of samples."""

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from tangentbench.theory.transport import disjoint_parts, gap_along_the_others, wasserstein


def test_distance_is_scipys() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(3, 50)), rng.exponential(size=(3, 50))
    expected = [wasserstein_distance(a, b) for a, b in zip(first, second, strict=True)]
    np.testing.assert_allclose(wasserstein(first, second), expected, rtol=1e-12)


def test_shifted_samples_lie_their_shift_apart() -> None:
    values = np.random.default_rng(1).normal(size=20)
    assert wasserstein(values, values[::-1] + 0.25) == pytest.approx(0.25)


def test_samples_of_different_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="5 and 4"):
        wasserstein(np.zeros(5), np.zeros(4))


def test_parts_do_not_overlap() -> None:
    assert [np.arange(10)[part].tolist() for part in disjoint_parts(10, 4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_gaps_have_the_sign_of_the_others() -> None:
    assert gap_along_the_others(np.array([-2.0, -1.0, -3.0])).tolist() == [2, 1, 3]
    noise = gap_along_the_others(np.random.default_rng(0).normal(size=(4000, 6)))
    assert noise.mean() == pytest.approx(0, abs=0.03)
    assert np.abs(noise).mean() > 0.7
