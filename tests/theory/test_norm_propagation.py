"""Norms through a layer: the closed forms of appendix I.1, their derivative, and Theorem 59's constants."""

import math
from typing import Any

import numpy as np
import pytest

from tangentbench.theory.activations import activation, norm_relu_scale, norm_relu_shift
from tangentbench.theory.duals import normalised
from tangentbench.theory.norm_propagation import (
    added_up,
    convergence_constants,
    norm_relu_propagation,
    propagation_by_quadrature,
)

GAMMA = np.array([0.1, 0.5, 0.8, 1.0, 1.3, 2.0, 5.0])
C = -1.5975


@pytest.mark.parametrize("c", [-3.0, C, 0.0, 1.0])
@pytest.mark.parametrize("quantity", ["transfer", "transfer_derivative", "constant", "bias"])
def test_closed_forms_are_what_quadrature_gives(c: Any, quantity: str) -> None:
    closed, numeric = norm_relu_propagation(c), propagation_by_quadrature(activation("norm_relu", c=c))
    np.testing.assert_allclose(getattr(closed, quantity)(GAMMA), getattr(numeric, quantity)(GAMMA), atol=1e-10)


@pytest.mark.parametrize("name", ["relu", "step", "exponential", "hermite2", "selu"])
def test_derivative_by_quadrature_is_the_slope(name: str) -> None:
    propagation = propagation_by_quadrature(normalised(activation(name)))
    gamma, h = np.array([0.6, 1.0, 1.5]), 1e-4
    slope = (propagation.transfer(gamma + h) - propagation.transfer(gamma - h)) / (2 * h)
    np.testing.assert_allclose(propagation.transfer_derivative(gamma), slope, rtol=1e-5, atol=1e-7)


def test_derivative_in_closed_form_is_the_slope() -> None:
    propagation, h = norm_relu_propagation(C), 1e-5
    slope = (propagation.transfer(GAMMA + h) - propagation.transfer(GAMMA - h)) / (2 * h)
    np.testing.assert_allclose(propagation.transfer_derivative(GAMMA), slope, atol=1e-9)


@pytest.mark.parametrize("name", ["identity", "hermite2", "relu", "step", "selu"])
def test_a_normalised_activation_keeps_norm_one_and_has_no_bias_there(name: str) -> None:
    propagation = propagation_by_quadrature(normalised(activation(name)))
    assert propagation.transfer(np.asarray(1.0)) == pytest.approx(1.0, abs=1e-10)
    assert propagation.bias(np.asarray(1.0)) == pytest.approx(0.0, abs=1e-10)


def test_identity_keeps_every_norm() -> None:
    propagation = propagation_by_quadrature(activation("identity"))
    np.testing.assert_allclose(propagation.transfer(GAMMA), GAMMA, rtol=1e-12)
    np.testing.assert_allclose(propagation.transfer_derivative(GAMMA), 1.0, rtol=1e-11)
    assert convergence_constants(propagation).alpha == pytest.approx(0.0, abs=1e-11)


def test_a_bias_that_never_shrinks_adds_up_without_bound() -> None:
    assert added_up(0.5, 0.25) == 2.0
    assert added_up(0.5, 0.0) == math.inf


@pytest.mark.parametrize("start", [0.5, 2.0])
def test_norms_approach_one_at_least_at_the_rate_alpha(start: float) -> None:
    """Inequality (12), layer by layer."""
    propagation = norm_relu_propagation(C)
    alpha = convergence_constants(propagation).alpha
    distance = np.abs(propagation.path(start, 60) - 1)
    assert np.all(distance[1:] <= (1 - alpha) * distance[:-1] + 1e-15)
    assert distance[-1] < 1e-4


def test_biases_on_the_way_sum_to_less_than_delta() -> None:
    propagation = norm_relu_propagation(C)
    constants = convergence_constants(propagation)
    assert propagation.bias(propagation.path(0.5, 200)).sum() < constants.delta_low
    assert propagation.bias(propagation.path(2.0, 200)).sum() < constants.delta_high


def test_constants_at_the_papers_range() -> None:
    propagation = norm_relu_propagation(C)
    constants = convergence_constants(propagation)
    assert constants.alpha_low == pytest.approx(2 * propagation.transfer(np.asarray(0.5)) - 1)
    assert constants.alpha == constants.alpha_low < constants.alpha_high
    assert constants.delta == constants.delta_high > constants.delta_low


def test_a_wider_range_has_weaker_constants() -> None:
    propagation = norm_relu_propagation(C)
    narrow, wide = convergence_constants(propagation), convergence_constants(propagation, 0.25, 4.0)
    assert wide.alpha < narrow.alpha
    assert wide.delta > narrow.delta


def test_range_must_hold_one() -> None:
    with pytest.raises(ValueError, match="must hold 1"):
        convergence_constants(norm_relu_propagation(C), 1.2, 2.0)


def test_printed_bias_at_half_comes_from_a_rounded_shift() -> None:
    """bias(0.5) is 0.000855; with b(c) rounded to four decimals it is the printed 0.00086."""
    shift, scale = norm_relu_shift(C), norm_relu_scale(C)
    propagation = norm_relu_propagation(C)
    mean = propagation.constant(np.asarray(0.5)) / scale
    rounded = mean - shift + round(shift, 4)
    second = propagation.transfer(np.asarray(0.5)) / scale**2 - mean**2 + rounded**2
    assert round(float(propagation.bias(np.asarray(0.5))), 5) == 0.00085
    assert round(float(rounded**2 / second), 5) == 0.00086
