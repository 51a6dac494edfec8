"""The fast dual is the dual: against closed forms, quadrature and Hermite series, down to the smallest correlation."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tangentbench.errors import TangentbenchError
from tangentbench.theory.activations import Activation, activation
from tangentbench.theory.duals import (
    dual_by_hermite,
    dual_by_quadrature,
    dual_derivative_by_quadrature,
    moments,
    normalised,
    scaled,
)
from tangentbench.theory.layer_map import by_angle, layer_map

RHO = np.array([-1.0, -0.97, -0.6, -0.5, -0.2, 0.0, 1e-3, 0.3, 0.5, 0.51, 0.9, 0.9999, 1 - 1e-9, 1.0])
SETTINGS = {
    "norm_relu": {"c": -1.5975},
    "selu": {},
    "tanh": {},
    "relu": {},
    "leaky_relu": {"slope": 0.1},
    "step": {},
    "exponential": {},
    "hermite2": {},
}
every = pytest.mark.parametrize("sigma", [activation(name, **given) for name, given in SETTINGS.items()], ids=SETTINGS)


@every
def test_value_is_the_dual(sigma: Any) -> None:
    for version in (normalised(sigma), scaled(sigma)):
        np.testing.assert_allclose(layer_map(version).value(RHO), dual_by_quadrature(version, RHO), atol=1e-12)


@every
def test_slope_is_the_derivative_of_the_dual(sigma: Any) -> None:
    sigma = normalised(sigma)
    inside = np.array([-0.9, -0.5, 0.0, 0.4, 0.8])
    if sigma.derivative is None:
        with pytest.raises(TangentbenchError, match="jumps"):
            layer_map(sigma).slope(inside)
    else:
        expected = dual_derivative_by_quadrature(sigma, inside)
        np.testing.assert_allclose(layer_map(sigma).slope(inside), expected, atol=1e-11)


@every
def test_tiny_correlations_keep_their_digits(sigma: Any) -> None:
    """sigma_hat(rho) / rho tends to a_1^2, or to a_2^2 rho where there is no linear part."""
    sigma = normalised(sigma)
    layer, rho = layer_map(sigma), np.array([1e-9, -1e-30, 1e-120])
    linear, quadratic = layer.squares[1], layer.squares[2]
    np.testing.assert_allclose(layer.value(rho), linear * rho + quadratic * rho**2, rtol=1e-8)
    assert layer.nonaffinity == pytest.approx(1 - moments(sigma).linear ** 2, abs=1e-12)


@every
def test_derivative_is_that_of_the_function(sigma: Any) -> None:
    if sigma.derivative is not None:
        x, h = np.array([-2.1, -0.7, 0.3, 1.9]), 1e-6
        slope = (sigma.function(x + h) - sigma.function(x - h)) / (2 * h)
        np.testing.assert_allclose(sigma.derivative(x), slope, rtol=1e-6, atol=1e-8)


def test_a_kinked_activation_without_closed_form_is_interpolated_to_twelve_digits() -> None:
    sigma = normalised(activation("relu"))
    bare = layer_map(replace(sigma, dual=None, dual_derivative=None))
    np.testing.assert_allclose(bare.value(RHO), sigma.dual(RHO), atol=1e-12)  # type: ignore[misc]
    np.testing.assert_allclose(bare.slope(RHO), sigma.dual_derivative(RHO), atol=1e-11)  # type: ignore[misc]


def test_a_smooth_activation_is_interpolated_to_twelve_digits() -> None:
    sigma, far = normalised(activation("tanh")), RHO[np.abs(RHO) > 0.5]
    np.testing.assert_allclose(by_angle(sigma)(far), dual_by_hermite(sigma, far, 450), atol=1e-12)


def test_shape_is_kept_and_an_activation_of_another_variance_refused() -> None:
    layer = layer_map(normalised(activation("relu")))
    assert layer.value(np.full((2, 3, 4), 0.7)).shape == (2, 3, 4)
    with pytest.raises(TangentbenchError, match=r"second moment 0\.5"):
        layer_map(activation("relu"))


def test_an_activation_of_ones_own_needs_no_closed_form() -> None:
    """The dual of sin is sinh(rho)/e, so normalised it is sinh(rho)/sinh(1)."""
    layer = layer_map(normalised(Activation("sine", "sine", np.sin, derivative=np.cos)))
    np.testing.assert_allclose(layer.value(RHO), np.sinh(RHO) / np.sinh(1), atol=1e-12)
    np.testing.assert_allclose(layer.slope(RHO), np.cosh(RHO) / np.sinh(1), atol=1e-12)
