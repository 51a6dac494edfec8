"""How squared norms pass through a layer, and Theorem 59's constants (appendices D.1 and I.1).

A representation of squared norm gamma meets the activation as sigma(sqrt(gamma) X), X ~ N(0, 1), with Hermite
coefficients a_j^{gamma}. The next squared norm is sigma_hat_l(gamma) = E[sigma(sqrt(gamma) X)^2], the sum of all
(a_j^{gamma})^2, and bias(gamma) = (a_0^{gamma})^2 / sigma_hat_l(gamma) is the share that all inputs have in common.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from tangentbench.theory.activations import Activation, norm_relu_scale, norm_relu_shift
from tangentbench.theory.quadrature import Function, expectation, gaussian_density, pointwise


@dataclass(frozen=True)
class NormPropagation:
    """Functions of gamma > 0 (arrays of any shape): sigma_hat_l, its derivative, a_0^{gamma}."""

    transfer: Function
    transfer_derivative: Function
    constant: Function

    def bias(self, gamma: np.ndarray) -> np.ndarray:
        """(a_0^{gamma})^2 / sum_j (a_j^{gamma})^2."""
        return np.asarray(np.square(self.constant(gamma)) / self.transfer(gamma))

    def path(self, gamma: float, layers: int) -> np.ndarray:
        """gamma and its images after 1, ..., layers layers; shape (layers + 1,)."""
        norms = [gamma]
        for _ in range(layers):
            norms.append(float(self.transfer(np.asarray(norms[-1]))))
        return np.array(norms)


def propagation_by_quadrature(activation: Activation) -> NormPropagation:
    """For any activation.

    The derivative of sigma_hat_l needs none of sigma: with gamma, E[f(sqrt(gamma) X)] changes by
    E[f(sqrt(gamma) X) (X^2 - 1)] / (2 gamma).
    """

    def at(gamma: float, integrand: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> float:
        root = np.sqrt(gamma)
        kinks = [kink / root for kink in activation.kinks]
        return expectation(lambda x: integrand(activation.function(root * x), x), kinks)

    return NormPropagation(
        transfer=lambda gamma: pointwise(lambda one: at(one, lambda value, x: value**2), gamma),
        transfer_derivative=lambda gamma: pointwise(
            lambda one: at(one, lambda value, x: value**2 * (x**2 - 1.0)) / (2.0 * one), gamma
        ),
        constant=lambda gamma: pointwise(lambda one: at(one, lambda value, x: value), gamma),
    )


def norm_relu_propagation(c: float) -> NormPropagation:
    """NormReLU_c in the closed forms of appendix I.1."""
    shift, scale = norm_relu_shift(c), norm_relu_scale(c)

    def parts(gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        root = np.sqrt(gamma)
        return root, ndtr(-c / root), gaussian_density(c / root)

    def transfer(gamma: np.ndarray) -> np.ndarray:
        root, above, density = parts(gamma)
        inner = (c**2 + gamma - 2.0 * c * shift) * above + (2.0 * shift - c) * root * density + shift**2
        return np.asarray(scale**2 * inner)

    def transfer_derivative(gamma: np.ndarray) -> np.ndarray:
        root, above, density = parts(gamma)
        return np.asarray(scale**2 * (above + shift / root * density))

    def constant(gamma: np.ndarray) -> np.ndarray:
        root, above, density = parts(gamma)
        return np.asarray(scale * (root * density - above * c + shift))

    return NormPropagation(transfer, transfer_derivative, constant)


@dataclass(frozen=True)
class ConvergenceConstants:
    """Theorem 59 for squared norms between `low` and `high` around 1.

    alpha bounds how fast norms approach 1 a layer (from below by the chord of the concave sigma_hat_l, from above by
    its tangent at 1); delta bounds the correlation that the biases add up to on the way.
    """

    alpha_low: float
    alpha_high: float
    delta_low: float
    delta_high: float

    @property
    def alpha(self) -> float:
        """alpha' = min(alpha^-, alpha^+)."""
        return min(self.alpha_low, self.alpha_high)

    @property
    def delta(self) -> float:
        """delta' = max(bias(low) / alpha^-, bias(high) / alpha^+)."""
        return max(self.delta_low, self.delta_high)


def convergence_constants(propagation: NormPropagation, low: float = 0.5, high: float = 2.0) -> ConvergenceConstants:
    """alpha^- = 1 - (1 - sigma_hat_l(low)) / (1 - low), which is 2 sigma_hat_l(0.5) - 1 at the paper's low = 0.5.

    Meant for a normalised activation with sigma_hat_l concave and bias convex on [low, high]; 0 < low < 1 < high.
    """
    if not 0.0 < low < 1.0 < high:
        raise ValueError(f"the range of squared norms must hold 1 inside it and be positive, not [{low}, {high}]")
    alpha_low = 1.0 - (1.0 - float(propagation.transfer(np.asarray(low)))) / (1.0 - low)
    alpha_high = 1.0 - float(propagation.transfer_derivative(np.asarray(1.0)))
    return ConvergenceConstants(
        alpha_low=alpha_low,
        alpha_high=alpha_high,
        delta_low=added_up(float(propagation.bias(np.asarray(low))), alpha_low),
        delta_high=added_up(float(propagation.bias(np.asarray(high))), alpha_high),
    )


def added_up(bias: float, alpha: float) -> float:
    """bias / alpha: a bias that shrinks by 1 - alpha per layer, summed over the layers; unbounded where alpha is 0."""
    return bias / alpha if alpha > 0 else math.inf
