"""What one infinitely wide layer does to correlations: the dual activation, fast and with all its digits.

Kernels of deep networks apply the dual hundreds of times to every entry of a matrix. Two things go wrong with a closed
form then: a centred dual sigma_hat(rho) = a_1^2 rho + ... loses its digits to cancellation once rho is small, and
activations without one would need an integral in two dimensions per entry. Here

    |rho| <= 1/2   the power series sum_i a_i^2 rho^i of the Hermite coefficients: every digit down to the smallest rho
    |rho| > 1/2    the closed form where there is one, otherwise Chebyshev series in the angle arccos(rho), in which
                   the dual is smooth up to rho = 1 although it has a root there
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial import Chebyshev

from tangentbench.errors import TangentbenchError
from tangentbench.theory.activations import Activation
from tangentbench.theory.duals import dual_by_quadrature, hermite_coefficients, moments
from tangentbench.theory.quadrature import Function

NEAR = 0.5
"""Up to this correlation the power series is used."""
TERMS = 64
"""Its length: NEAR^TERMS lies below rounding."""
CENTRED = 1e-12
"""A mean below this is rounding, and the activation counts as centred."""
ANGLE_DEGREE = 24
SMOOTH_DEGREE = 500
"""An activation whose Hermite series has converged by here needs no integrals in two dimensions."""
CONVERGED = 1e-13
ROUNDING = 1e-18


@dataclass(frozen=True)
class LayerMap:
    """sigma_hat and its derivative on arrays of correlations of any shape."""

    name: str
    squares: np.ndarray
    """a_i^2 for i = 0, ..., TERMS - 1."""
    far: Function
    far_slope: Function | None

    def value(self, correlations: np.ndarray) -> np.ndarray:
        """sigma_hat(rho)."""
        return pieced(correlations, self.squares, self.far)

    def slope(self, correlations: np.ndarray) -> np.ndarray:
        """d sigma_hat / d rho, the dual of the activation's derivative (appendix C, fact 5)."""
        if self.far_slope is None:
            raise TangentbenchError(f"the activation {self.name} jumps, so its tangent kernel does not exist")
        return pieced(correlations, self.squares[1:] * np.arange(1, TERMS), self.far_slope)

    @property
    def slope_at_one(self) -> float:
        return float(self.slope(np.ones(1))[0])

    @property
    def nonaffinity(self) -> float:
        """mu~ = 1 - a_0^2 - a_1^2 (Definition 29) for second moment 1, which is mu where the mean is 0."""
        return float(1.0 - self.squares[0] - self.squares[1])


def pieced(correlations: np.ndarray, coefficients: np.ndarray, far: Function) -> np.ndarray:
    rho = np.asarray(correlations, dtype=float)
    size = np.abs(rho)
    near = size <= NEAR
    if near.all():
        return power_series(rho, coefficients, float(size.max(initial=0.0)))
    result = np.empty_like(rho)
    result[near] = power_series(rho[near], coefficients, NEAR)
    result[~near] = far(rho[~near])
    return result


def power_series(rho: np.ndarray, coefficients: np.ndarray, largest: float) -> np.ndarray:
    """Horner's scheme with as many terms as the largest |rho| needs."""
    terms = len(coefficients)
    if 0.0 < largest < NEAR:
        terms = min(terms, 3 + int(np.log(ROUNDING) / np.log(largest)))
    result = np.full_like(rho, coefficients[terms - 1])
    for coefficient in coefficients[terms - 2 :: -1]:
        result *= rho
        result += coefficient
    return result


def layer_map(activation: Activation) -> LayerMap:
    """The layer map of an activation with second moment 1 (`normalised`, or `scaled` where it is not centred)."""
    found = moments(activation)
    if abs(found.second - 1.0) > 1e-9:
        raise TangentbenchError(
            f"the activation {activation.name} has second moment {found.second:.6g} where a layer map needs 1: "
            "normalise or scale it first"
        )
    squares = hermite_coefficients(activation, TERMS - 1) ** 2
    if abs(found.mean) < CENTRED:
        squares[0] = 0.0
    slope = activation.dual_derivative
    if slope is None and activation.derivative is not None:
        slope = by_angle(replace(activation, function=activation.derivative))
    jumps = activation.derivative is None
    return LayerMap(activation.name, squares, activation.dual or by_angle(activation), None if jumps else slope)


def by_angle(activation: Activation) -> Function:
    """sigma_hat beyond NEAR on both sides, by Chebyshev series in arccos(rho)."""
    edge = float(np.arccos(NEAR))
    positive, negative = (angle_series(activation, *ends) for ends in ((0.0, edge), (np.pi - edge, np.pi)))

    def far(rho: np.ndarray) -> np.ndarray:
        angle = np.arccos(np.clip(rho, -1.0, 1.0))
        return np.where(rho > 0, positive(np.minimum(angle, edge)), negative(np.maximum(angle, np.pi - edge)))

    return far


def angle_series(activation: Activation, low: float, high: float) -> Callable[[np.ndarray], np.ndarray]:
    coefficients = hermite_coefficients(activation, SMOOTH_DEGREE)
    converged = abs(moments(activation).second - np.sum(coefficients**2)) < CONVERGED

    def values(angle: np.ndarray) -> np.ndarray:
        if converged:
            return np.asarray(np.polynomial.polynomial.polyval(np.cos(angle), coefficients**2))
        return dual_by_quadrature(activation, np.cos(angle))

    return Chebyshev.interpolate(values, ANGLE_DEGREE, domain=[low, high])
