"""Duals, Hermite coefficients, normalised versions and the coefficient of non-linearity of any activation.

Three independent roads to the dual sigma_hat(rho) = E[sigma(X) sigma(Y)] = sum_i a_i^2 rho^i: the closed form an
activation carries, quadrature in two dimensions, and the Hermite series.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tangentbench.errors import TangentbenchError
from tangentbench.theory.activations import Activation
from tangentbench.theory.quadrature import correlated_expectation, expectation, gaussian_rule, pointwise


@dataclass(frozen=True)
class Moments:
    """Under N(0, 1): a_0 = E[sigma(X)], a_1 = E[X sigma(X)], and E[sigma(X)^2] = sum_i a_i^2."""

    mean: float
    linear: float
    second: float

    @property
    def variance(self) -> float:
        return self.second - self.mean**2


def moments(activation: Activation) -> Moments:
    """By quadrature."""
    return Moments(
        mean=expectation(activation.function, activation.kinks),
        linear=expectation(lambda x: x * activation.function(x), activation.kinks),
        second=expectation(lambda x: np.square(activation.function(x)), activation.kinks),
    )


def normalised(activation: Activation) -> Activation:
    """(sigma - E sigma) / sd sigma, so that equation (2) holds: mean 0 and second moment 1 under N(0, 1).

    The closed forms of dual and derivative are carried along; mu is that of the normalised version already.
    """
    found = moments(activation)
    if not found.variance > 0.0:
        raise TangentbenchError(f"the activation {activation.name} is constant and cannot be normalised")
    return affine(activation, found.mean, float(np.sqrt(found.variance)), "normalised")


def scaled(activation: Activation) -> Activation:
    """sigma / sqrt(E sigma^2), equation (8): second moment 1, and whatever mean there was (section 3.4)."""
    second = moments(activation).second
    if not second > 0.0:
        raise TangentbenchError(f"the activation {activation.name} is zero and cannot be scaled")
    return affine(activation, 0.0, float(np.sqrt(second)), "scaled")


def affine(activation: Activation, shift: float, scale: float, how: str) -> Activation:
    """(sigma - shift) / scale with its closed forms, where `shift` is zero or the mean of sigma."""
    slope, dual, dual_slope = activation.derivative, activation.dual, activation.dual_derivative
    pair = activation.pair
    return replace(
        activation,
        name=f"{how}_{activation.name}",
        label=f"{how} {activation.label}",
        function=lambda x: (activation.function(x) - shift) / scale,
        derivative=None if slope is None else lambda x: slope(x) / scale,
        dual=None if dual is None else lambda rho: (dual(rho) - shift**2) / scale**2,
        dual_derivative=None if dual_slope is None else lambda rho: dual_slope(rho) / scale**2,
        # the mean that is taken off is that of a unit variance alone
        pair=None if pair is None or shift else lambda *covariances: _divided(pair(*covariances), scale**2),
    )


def _divided(pair: tuple[np.ndarray, np.ndarray | None], by: float) -> tuple[np.ndarray, np.ndarray | None]:
    return pair[0] / by, None if pair[1] is None else pair[1] / by


def dual(activation: Activation, correlations: np.ndarray | float) -> np.ndarray:
    """sigma_hat at each correlation: the closed form where there is one, quadrature otherwise."""
    if activation.dual is not None:
        return np.asarray(activation.dual(np.asarray(correlations, dtype=float)))
    return dual_by_quadrature(activation, correlations)


def dual_by_quadrature(activation: Activation, correlations: np.ndarray | float) -> np.ndarray:
    """sigma_hat in two dimensions, for every |rho| <= 1; the answer has the shape of `correlations`."""
    return pointwise(lambda rho: correlated_expectation(activation.function, rho, activation.kinks), correlations)


def dual_derivative(activation: Activation, correlations: np.ndarray | float) -> np.ndarray:
    """d sigma_hat / d rho: the closed form where there is one, quadrature otherwise."""
    if activation.dual_derivative is not None:
        return np.asarray(activation.dual_derivative(np.asarray(correlations, dtype=float)))
    return dual_derivative_by_quadrature(activation, correlations)


def dual_derivative_by_quadrature(activation: Activation, correlations: np.ndarray | float) -> np.ndarray:
    """d sigma_hat / d rho for |rho| < 1, without the derivative of sigma (a step has none).

    The pair's density changes with rho by the factor (z (s x - rho z) + rho) / s^2, where s^2 = 1 - rho^2 and
    y = rho x + s z; weighting with it differentiates under the integral.
    """

    def at(rho: float) -> float:
        squared = 1.0 - rho**2
        spread = np.sqrt(squared)
        return correlated_expectation(
            activation.function,
            rho,
            activation.kinks,
            weight=lambda x, z: (z * (spread * x - rho * z) + rho) / squared,
        )

    return pointwise(at, correlations)


def hermite_polynomials(x: np.ndarray, degree: int) -> np.ndarray:
    """h_0(x), ..., h_degree(x), orthonormal under N(0, 1); shape (degree + 1, len(x))."""
    table = np.empty((degree + 1, len(x)))
    table[0] = 1.0
    if degree:
        table[1] = x
    for order in range(1, degree):
        table[order + 1] = (x * table[order] - np.sqrt(order) * table[order - 1]) / np.sqrt(order + 1)
    return table


def hermite_coefficients(activation: Activation, degree: int) -> np.ndarray:
    """a_i = E[h_i(X) sigma(X)] for i = 0, ..., degree; good to rounding up to a degree of some hundreds."""
    nodes, weights = gaussian_rule(activation.kinks)
    return np.asarray(hermite_polynomials(nodes, degree) @ (weights * activation.function(nodes)))


def dual_by_hermite(activation: Activation, correlations: np.ndarray | float, degree: int) -> np.ndarray:
    """sum_{i <= degree} a_i^2 rho^i; what is left out is at most |rho|^(degree + 1) sum_{i > degree} a_i^2."""
    squares = hermite_coefficients(activation, degree) ** 2
    return np.asarray(np.polynomial.polynomial.polyval(np.asarray(correlations, dtype=float), squares))


def nonlinearity_by_quadrature(activation: Activation) -> float:
    """mu = 1 - a_1^2 / sum_{i >= 1} a_i^2 of the normalised version (appendix C.4), all three moments by quadrature."""
    found = moments(activation)
    return 1.0 - found.linear**2 / found.variance


def nonlinearity_from_dual(activation: Activation) -> float | None:
    """mu = 1 - sigma_hat'(0) / (sigma_hat(1) - sigma_hat(0)) (appendix C.4) where the dual has a closed form."""
    if activation.dual is None or activation.dual_derivative is None:
        return None
    at_zero, at_one = (float(activation.dual(np.asarray(rho))) for rho in (0.0, 1.0))
    return 1.0 - float(activation.dual_derivative(np.asarray(0.0))) / (at_one - at_zero)
