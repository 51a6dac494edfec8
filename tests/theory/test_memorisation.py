"""The ideal spectrum of the memorisation network's kernel."""

import numpy as np
import pytest

from tangentbench.theory.memorisation import (
    critical_weight_scale,
    cumulative_spectrum,
    expected_kernel,
    expected_spectrum,
    largest_eigenvalue,
    smallest_eigenvalue,
)


@pytest.mark.parametrize("depth", [2, 5, 20])
@pytest.mark.parametrize("gate_probability", [0.3, 0.5, 0.9])
def test_closed_form_is_the_spectrum_of_the_matrix(depth: int, gate_probability: float) -> None:
    eigenvalues = np.linalg.eigvalsh(expected_kernel(60, depth, gate_probability))
    np.testing.assert_allclose(eigenvalues, expected_spectrum(60, depth, gate_probability), atol=1e-12, rtol=1e-12)


def test_the_vector_of_ones_belongs_to_the_largest_eigenvalue() -> None:
    kernel = expected_kernel(30, 4, 0.5)
    np.testing.assert_allclose(kernel @ np.ones(30), largest_eigenvalue(30, 4, 0.5) * np.ones(30), rtol=1e-14)


def test_differences_of_examples_belong_to_the_smallest_eigenvalue() -> None:
    kernel, difference = expected_kernel(30, 4, 0.5), np.zeros(30)
    difference[[3, 4]] = 1.0, -1.0
    np.testing.assert_allclose(kernel @ difference, smallest_eigenvalue(4, 0.5) * difference, atol=1e-15)


def test_eigenvalues_tend_to_one_with_depth() -> None:
    assert largest_eigenvalue(200, 60, 0.5) == pytest.approx(1.0, abs=1e-12)
    assert smallest_eigenvalue(60, 0.5) == pytest.approx(1.0, abs=1e-12)


def test_cumulated_spectrum_is_linear_then_jumps_to_the_trace() -> None:
    sums = cumulative_spectrum(expected_spectrum(50, 3, 0.5)[::-1])
    np.testing.assert_allclose(sums[:-1], np.arange(1, 50) * 0.75, rtol=1e-13)
    assert sums[-1] == pytest.approx(50.0)


def test_critical_scale_at_one_half_is_the_printed_one() -> None:
    assert critical_weight_scale(25, 0.5) == pytest.approx(np.sqrt(2 / 25))
