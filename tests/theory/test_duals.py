"""Three roads to the dual activation agree; normalised versions are normalised; mu by every definition."""

import math
from typing import Any

import numpy as np
import pytest

from tangentbench.errors import TangentbenchError
from tangentbench.theory.activations import Activation, activation
from tangentbench.theory.duals import (
    dual,
    dual_by_hermite,
    dual_by_quadrature,
    dual_derivative,
    dual_derivative_by_quadrature,
    hermite_coefficients,
    hermite_polynomials,
    moments,
    nonlinearity_by_quadrature,
    nonlinearity_from_dual,
    normalised,
)
from tangentbench.theory.quadrature import gaussian_rule

ACTIVATIONS = [
    activation("identity"),
    activation("hermite2"),
    activation("relu"),
    activation("leaky_relu", slope=0.1),
    activation("leaky_relu", slope=-1.0),
    activation("step"),
    activation("exponential"),
    activation("norm_relu", c=-1.5975),
    activation("norm_relu", c=1.2),
    activation("selu"),
    activation("tanh"),
]
CLOSED = [sigma for sigma in ACTIVATIONS if sigma.dual is not None]


def names(sigmas: Any) -> Any:
    return [f"{sigma.name}{list(sigma.parameters.values()) or ''}" for sigma in sigmas]


every = pytest.mark.parametrize("sigma", ACTIVATIONS, ids=names(ACTIVATIONS))
with_closed_dual = pytest.mark.parametrize("sigma", CLOSED, ids=names(CLOSED))


@with_closed_dual
def test_closed_dual_is_the_integral_in_two_dimensions(sigma: Any) -> None:
    rho = np.array([-1.0, -0.9999, -0.6, 0.0, 0.35, 0.99, 1 - 1e-8, 1.0])
    np.testing.assert_allclose(sigma.dual(rho), dual_by_quadrature(sigma, rho), atol=1e-10)


@every
def test_hermite_series_sums_to_the_dual(sigma: Any) -> None:
    rho = np.array([-0.85, -0.3, 0.0, 0.5, 0.85])
    np.testing.assert_allclose(dual_by_hermite(sigma, rho, 250), dual(sigma, rho), atol=1e-10)


@with_closed_dual
def test_closed_derivative_is_that_of_the_integral(sigma: Any) -> None:
    rho = np.array([-0.95, -0.4, 0.0, 0.6, 0.95])
    np.testing.assert_allclose(dual_derivative(sigma, rho), dual_derivative_by_quadrature(sigma, rho), atol=1e-10)


@every
def test_derivative_is_the_slope_of_the_dual(sigma: Any) -> None:
    rho, h = np.array([-0.5, 0.0, 0.7]), 1e-4
    slope = (dual(sigma, rho + h) - dual(sigma, rho - h)) / (2 * h)
    np.testing.assert_allclose(dual_derivative(sigma, rho), slope, atol=1e-7)


@every
def test_dual_at_one_is_the_second_moment_and_at_zero_the_squared_mean(sigma: Any) -> None:
    found = moments(sigma)
    np.testing.assert_allclose(dual(sigma, np.array([0.0, 1.0])), [found.mean**2, found.second], atol=1e-12)


@every
def test_normalised_version_has_mean_zero_and_second_moment_one(sigma: Any) -> None:
    found = moments(normalised(sigma))
    assert found.mean == pytest.approx(0.0, abs=1e-10)
    assert found.second == pytest.approx(1.0, abs=1e-10)


@with_closed_dual
def test_normalising_carries_the_closed_dual_along(sigma: Any) -> None:
    sigma, rho = normalised(sigma), np.array([-0.5, 0.0, 0.8])
    np.testing.assert_allclose(sigma.dual(rho), dual_by_quadrature(sigma, rho), atol=1e-10)
    np.testing.assert_allclose(sigma.dual_derivative(rho), dual_derivative_by_quadrature(sigma, rho), atol=1e-10)


@every
def test_mu_by_closed_form_quadrature_and_definition(sigma: Any) -> None:
    """Definition 2 on the normalised version: 1 - E[X sigma(X)]^2."""
    mu = nonlinearity_by_quadrature(sigma)
    assert sigma.mu is None or mu == pytest.approx(sigma.mu, abs=1e-12)
    assert 1 - moments(normalised(sigma)).linear ** 2 == pytest.approx(mu, abs=1e-12)


@with_closed_dual
def test_mu_from_the_dual(sigma: Any) -> None:
    assert nonlinearity_from_dual(sigma) == pytest.approx(sigma.mu, abs=1e-12)


def test_mu_of_the_papers_table() -> None:
    printed = {
        "identity": 0.0,
        "hermite2": 1.0,
        "relu": (math.pi - 2) / (2 * math.pi - 2),
        "step": (math.pi - 2) / math.pi,
        "exponential": (math.e - 2) / (math.e - 1),
    }
    for name, value in printed.items():
        assert nonlinearity_from_dual(activation(name)) == pytest.approx(value, abs=1e-13)


def test_dual_of_the_exponential() -> None:
    """E[e^X e^Y] = e^(1 + rho); the paper's scan has e^(rho + 3)."""
    rho = np.array([-0.5, 0.0, 0.5])
    np.testing.assert_allclose(dual_by_quadrature(activation("exponential"), rho), np.exp(1 + rho), rtol=1e-12)


def test_series_of_relu_and_step() -> None:
    relu = hermite_coefficients(activation("relu"), 4) ** 2
    np.testing.assert_allclose(relu, [1 / (2 * math.pi), 1 / 4, 1 / (4 * math.pi), 0, 1 / (48 * math.pi)], atol=1e-13)
    step = hermite_coefficients(activation("step"), 5) ** 2
    expected = [1 / 4, 1 / (2 * math.pi), 0, 1 / (12 * math.pi), 0, 3 / (80 * math.pi)]
    np.testing.assert_allclose(step, expected, atol=1e-13)


def test_hermite_polynomials_are_orthonormal() -> None:
    nodes, weights = gaussian_rule()
    table = hermite_polynomials(nodes, 40)
    np.testing.assert_allclose((table * weights) @ table.T, np.eye(41), atol=1e-11)


def test_an_activation_without_closed_forms_is_served_by_quadrature() -> None:
    sine = Activation("sine", "sine", np.sin)
    rho = np.array([-0.7, 0.2, 0.9])
    np.testing.assert_allclose(dual(sine, rho), np.exp(-1) * np.sinh(rho), atol=1e-12)
    np.testing.assert_allclose(dual_derivative(sine, rho), np.exp(-1) * np.cosh(rho), atol=1e-11)
    assert nonlinearity_from_dual(sine) is None


def test_a_constant_cannot_be_normalised() -> None:
    with pytest.raises(TangentbenchError, match="constant"):
        normalised(Activation("one", "one", lambda x: np.zeros_like(x)))
