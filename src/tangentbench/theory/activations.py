"""Activations as data: the function, where it bends, and the closed forms that are known of it.

A new activation is one decorated function here (or in any module a study imports); `activation("name")` then finds it.
Symbols follow the paper: sigma the activation, sigma_hat(rho) = E[sigma(X) sigma(Y)] its dual at correlation rho of two
standard normals, mu the coefficient of non-linearity (Definition 2) of its normalised version, phi and Phi the Gaussian
density and distribution function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import erf as error_function
from scipy.special import ndtr, owens_t

from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.theory.gaussian_pairs import (
    PairDual,
    erf_pair,
    exponential_pair,
    hermite2_pair,
    identity_pair,
    leaky_relu_pair,
    selu_pair,
    shifted_relu_pair,
    step_pair,
)
from tangentbench.theory.quadrature import Function, gaussian_density

Maker = Callable[..., "Activation"]

ROOT_TWO = 2.0**0.5


@dataclass(frozen=True)
class Activation:
    """sigma, elementwise on numpy arrays, with the closed forms of its dual and mu where they are known.

    Written without np.asarray(x), `function` and `derivative` stay on a GPU too (networks/numpy_on_torch.py).
    """

    name: str
    label: str
    function: Function
    kinks: tuple[float, ...] = ()
    """Where the function or its derivative jumps; quadrature splits there."""
    derivative: Function | None = None
    """sigma', elementwise (any value between the two sides at a kink); None for one that jumps."""
    dual: Function | None = None
    """sigma_hat(rho) for unit variances."""
    dual_derivative: Function | None = None
    """d sigma_hat / d rho."""
    mu: float | None = None
    """The coefficient of non-linearity of the normalised version (appendix C.4)."""
    pair: PairDual | None = None
    """E[sigma(a) sigma(b)] and E[sigma'(a) sigma'(b)] for centred Gaussians of any variances."""
    parameters: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.function(x)


_MAKERS: dict[str, Maker] = {}


def register(maker: Maker) -> Maker:
    """Make `activation(maker.__name__, **parameters)` find this activation."""
    _MAKERS[maker.__name__] = maker
    return maker


def known_activations() -> list[str]:
    return sorted(_MAKERS)


def activation(name: str, **parameters: float) -> Activation:
    """The activation of that name, e.g. activation("norm_relu", c=-1.5)."""
    if name not in _MAKERS:
        raise UnknownName("activation", name, _MAKERS)
    maker = _MAKERS[name]
    try:
        inspect.signature(maker).bind(**parameters)
    except TypeError as error:
        wanted = ", ".join(inspect.signature(maker).parameters) or "none"
        raise TangentbenchError(f"activation {name}: {error}; its parameters are: {wanted}") from error
    return maker(**parameters)


def activation_from_setting(setting: str | Mapping[str, Any]) -> Activation:
    """An activation as the catalogue writes it: `relu`, or `{name: leaky_relu, slope: 0.1}`."""
    if isinstance(setting, str):
        return activation(setting)
    if "name" not in setting:
        raise TangentbenchError(f"the activation {dict(setting)} has no name: write {{name: ..., parameter: value}}")
    return activation(**setting)


@register
def identity() -> Activation:
    return Activation(
        name="identity",
        label="identity",
        function=lambda x: np.multiply(x, 1.0, dtype=float),
        derivative=lambda x: np.ones_like(x),
        dual=lambda rho: np.array(rho, dtype=float),
        dual_derivative=lambda rho: np.ones_like(rho, dtype=float),
        mu=0.0,
        pair=identity_pair,
    )


@register
def hermite2() -> Activation:
    """h_2(x) = (x^2 - 1) / sqrt(2): no linear part at all."""
    return Activation(
        name="hermite2",
        label="2nd Hermite",
        function=lambda x: (np.square(x) - 1.0) / ROOT_TWO,
        derivative=lambda x: np.multiply(x, ROOT_TWO),
        dual=lambda rho: np.square(rho),
        dual_derivative=lambda rho: 2.0 * np.asarray(rho),
        mu=1.0,
        pair=hermite2_pair,
    )


@register
def relu() -> Activation:
    return leaky("relu", "ReLU", 0.0, {})


@register
def leaky_relu(slope: float) -> Activation:
    return leaky("leaky_relu", f"leaky ReLU ({slope:g})", slope, {"slope": slope})


def leaky(name: str, label: str, slope: float, parameters: Mapping[str, float]) -> Activation:
    """max(x, 0) + slope min(x, 0), as odd (1 + s)/2 x plus even (1 - s)/2 |x|: their cross terms vanish in the dual."""
    odd, even = (1.0 + slope) ** 2 / 4.0, (1.0 - slope) ** 2 / 4.0

    def dual(rho: np.ndarray) -> np.ndarray:
        absolute = (np.sqrt(1.0 - np.square(rho)) + rho * np.arcsin(rho)) * 2.0 / np.pi
        return np.asarray(odd * np.asarray(rho) + even * absolute)

    return Activation(
        name=name,
        label=label,
        function=lambda x: np.where(np.greater(x, 0), x, np.multiply(x, slope)),
        kinks=(0.0,),
        derivative=lambda x: np.where(np.greater(x, 0), np.ones_like(x), slope),
        dual=dual,
        dual_derivative=lambda rho: odd + even * np.arcsin(rho) * 2.0 / np.pi,
        mu=1.0 - odd / ((1.0 + slope**2) / 2.0 - 4.0 * even / (2.0 * np.pi)),
        pair=leaky_relu_pair(slope),
        parameters=parameters,
    )


@register
def tanh() -> Activation:
    """Its dual has no closed form; its Hermite series converges fast, for it is analytic around the real line."""
    return Activation(
        name="tanh",
        label="tanh",
        function=lambda x: np.tanh(x),
        derivative=lambda x: 1.0 - np.square(np.tanh(x)),
    )


@register
def erf() -> Activation:
    """The error function; at variances v and v' its dual is that of correlation 2 c / sqrt((1 + 2 v) (1 + 2 v'))."""
    return Activation(
        name="erf",
        label="erf",
        function=lambda x: error_function(x),
        derivative=lambda x: np.multiply(np.exp(-np.square(x)), 2.0 / np.pi**0.5),
        dual=lambda rho: 2.0 / np.pi * np.arcsin(np.asarray(rho) * 2.0 / 3.0),
        dual_derivative=lambda rho: 4.0 / np.pi / np.sqrt(9.0 - 4.0 * np.square(rho)),
        mu=float(1.0 - 2.0 / 3.0 / np.arcsin(2.0 / 3.0)),
        pair=erf_pair,
    )


@register
def step() -> Activation:
    return Activation(
        name="step",
        label="step",
        function=lambda x: np.where(np.greater_equal(x, 0), 1.0, 0.0),
        kinks=(0.0,),
        dual=lambda rho: 0.5 - np.arccos(rho) / (2.0 * np.pi),
        dual_derivative=lambda rho: 1.0 / (2.0 * np.pi * np.sqrt(1.0 - np.square(rho))),
        mu=(np.pi - 2.0) / np.pi,
        pair=step_pair,
    )


@register
def exponential() -> Activation:
    return Activation(
        name="exponential",
        label="exponential",
        function=lambda x: np.exp(x),
        derivative=lambda x: np.exp(x),
        dual=lambda rho: np.exp(1.0 + np.asarray(rho)),
        dual_derivative=lambda rho: np.exp(1.0 + np.asarray(rho)),
        mu=(np.e - 2.0) / (np.e - 1.0),
        pair=exponential_pair,
    )


def norm_relu_shift(c: float) -> float:
    """b(c) = (1 - Phi(c)) c - phi(c), section 7: minus the mean of max(X - c, 0)."""
    return float(ndtr(-c) * c - gaussian_density(c))


def norm_relu_scale(c: float) -> float:
    """lambda(c) of section 7: one over the standard deviation of max(X - c, 0)."""
    below, above, density = float(ndtr(c)), float(ndtr(-c)), float(gaussian_density(c))
    variance = above * below * c**2 + (above - below) * density * c + above - density**2
    if not variance > 0.0:
        raise TangentbenchError(f"norm_relu: max(X - c, 0) has no variance left at c = {c}: choose c below 30")
    return float(variance**-0.5)


@register
def norm_relu(c: float) -> Activation:
    """lambda(c) [max(x - c, 0) + b(c)], equation (4): a ReLU with its kink at c, mean 0 and second moment 1.

    Its dual follows from the moments of two Gaussians truncated at c, with P(X > c, Y > c) by Owen's T function:
    E[(X - c)_+ (Y - c)_+] = (c^2 + rho) P - 2 c phi(c) (1 - Phi(c t)) + (1 - rho^2) phi_2(c, c; rho),
    where t = sqrt((1 - rho) / (1 + rho)) and phi_2 is the density of the pair.
    """
    shift, scale = norm_relu_shift(c), norm_relu_scale(c)

    def both_above(rho: np.ndarray) -> np.ndarray:
        return np.asarray(ndtr(-c) - 2.0 * owens_t(c, tangent(rho)))

    def dual(rho: np.ndarray) -> np.ndarray:
        rho = np.asarray(rho, dtype=float)
        beyond = ndtr(-c * tangent(rho))
        pair = np.sqrt(1.0 - rho**2) * np.exp(-(c**2) / np.maximum(1.0 + rho, TINY)) / (2.0 * np.pi)
        product = (c**2 + rho) * both_above(rho) - 2.0 * c * gaussian_density(c) * beyond + pair
        return np.asarray(scale**2 * (product - shift**2))

    return Activation(
        name="norm_relu",
        label=f"NormReLU (c = {c:g})",
        function=lambda x: scale * (np.maximum(np.subtract(x, c), 0.0) + shift),
        kinks=(c,),
        derivative=lambda x: np.where(np.greater(x, c), np.full_like(x, scale), 0.0),
        dual=dual,
        dual_derivative=lambda rho: scale**2 * both_above(rho),
        mu=float(1.0 - (scale * ndtr(-c)) ** 2),
        pair=shifted_relu_pair(c, shift, scale),
        parameters={"c": c},
    )


TINY = 1e-100
"""Stands for 1 + rho at rho = -1: far below any other value it takes, and safe to divide by."""


def tangent(rho: np.ndarray) -> np.ndarray:
    """sqrt((1 - rho) / (1 + rho)), the tangent of half the angle with cosine rho; huge instead of infinite at -1."""
    rho = np.asarray(rho, dtype=float)
    return np.asarray(np.sqrt((1.0 - rho) / np.maximum(1.0 + rho, TINY)))


@dataclass(frozen=True)
class SeluConstants:
    scale: float
    alpha: float


def selu_constants() -> SeluConstants:
    """Scale and alpha that give scale * (x or alpha (e^x - 1)) mean 0 and second moment 1 under N(0, 1).

    With Phi(-1) and Phi(-2) for the truncated E[e^X; X < 0] = sqrt(e) Phi(-1) and E[e^2X; X < 0] = e^2 Phi(-2).
    """
    once, twice = np.exp(0.5) * ndtr(-1.0), np.exp(2.0) * ndtr(-2.0)
    alpha = float(gaussian_density(0.0)) / (0.5 - once)
    second_moment = 0.5 + alpha**2 * (twice - 2.0 * once + 0.5)
    return SeluConstants(scale=float(second_moment**-0.5), alpha=float(alpha))


@register
def selu() -> Activation:
    """SeLU (Klambauer et al. 2017): normalised like NormReLU, with an exponential in place of the flat part.

    Its dual is a sum over the four quadrants. An exponential weight moves the Gaussian pair's mean, which leaves
    probabilities of shifted quadrants, and these are Owen's T function.
    """
    constants = selu_constants()
    scale, alpha = constants.scale, constants.alpha
    linear_part = scale * (0.5 + alpha * np.exp(0.5) * ndtr(-1.0))
    relu_dual = relu().dual
    assert relu_dual is not None

    def function(x: np.ndarray) -> np.ndarray:
        negative = alpha * np.expm1(np.minimum(x, 0.0))
        return np.multiply(np.where(np.greater(x, 0), x, negative), scale)

    def both_exponential(rho: np.ndarray) -> np.ndarray:
        """E[e^(X+Y); X < 0, Y < 0]."""
        return np.asarray(np.exp(1.0 + rho) * (ndtr(-1.0 - rho) - 2.0 * owens_t(1.0 + rho, tangent(rho))))

    def one_exponential(rho: np.ndarray) -> np.ndarray:
        """E[e^Y; X < 0, Y < 0] = sqrt(e) P(X < -rho, Y < -1)."""
        spread = np.sqrt(1.0 - rho**2)
        with np.errstate(divide="ignore"):
            ratio = spread / (rho + 0.0)
        below = 0.5 * (ndtr(-rho) + ndtr(-1.0)) - owens_t(rho, ratio) - np.where(rho < 0, 0.5, 0.0)
        return np.asarray(np.exp(0.5) * below)

    def dual(rho: np.ndarray) -> np.ndarray:
        rho = np.asarray(rho, dtype=float)
        spread = np.sqrt(1.0 - rho**2)
        one = one_exponential(rho)
        tilted = rho * (np.exp(0.5) * ndtr(-1.0) - one) + np.exp(0.5) * (
            gaussian_density(rho) * ndtr(-spread) - rho * gaussian_density(1.0) / 2.0
        )
        mixed = tilted - gaussian_density(0.0) * (1.0 - rho) / 2.0
        negative = both_exponential(rho) - 2.0 * one + 0.25 + np.arcsin(rho) / (2.0 * np.pi)
        return np.asarray(scale**2 * (relu_dual(rho) + 2.0 * alpha * mixed + alpha**2 * negative))

    def dual_derivative(rho: np.ndarray) -> np.ndarray:
        rho = np.asarray(rho, dtype=float)
        positive = 0.25 + np.arcsin(rho) / (2.0 * np.pi)
        mixed = np.exp(0.5) * ndtr(-1.0) - one_exponential(rho)
        return np.asarray(scale**2 * (positive + 2.0 * alpha * mixed + alpha**2 * both_exponential(rho)))

    return Activation(
        name="selu",
        label="SeLU",
        function=function,
        kinks=(0.0,),
        derivative=lambda x: scale * np.where(np.greater(x, 0), np.ones_like(x), alpha * np.exp(np.minimum(x, 0.0))),
        dual=dual,
        dual_derivative=dual_derivative,
        mu=float(1.0 - linear_part**2),
        pair=selu_pair(alpha, scale),
        parameters={},
    )
