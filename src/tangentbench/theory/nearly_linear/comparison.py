"""How far gradient flow takes a nearly-linear network from a linear one that is trained on d numbers of the sample.

The network has L >= 2 layers and the activation phi(z) = z - epsilon min(0, z), which is alpha z + eta psi(z) with psi
1-Lipschitz and psi(0) = 0 (`Split`). The reference V starts at the same weights and follows the gradient flow of
|q - alpha^(L-1) V_L ... V_1|^2 / 2, where q = Y X^T / m; it sees nothing else of the sample. System (S) of
docs/nearly_linear.md bounds norms of V and the distance of the trained weights W from it, for every gradient flow and
with no assumption on the data:

    |V_1| <= a0,  |V_1|_F <= b0,  |V_l| <= c0,  |W_1 - V_1|_F <= eta p,  |W_l - V_l|_F <= eta r      (l >= 2)

Nothing here is rounded up: the system is integrated numerically, to a relative error far below what is printed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from tangentbench.errors import TangentbenchError

Array = NDArray[np.float64]

BLOWN_UP = 1e9
"""A norm beyond which the system counts as infinite; no bound is of use long before."""
RELATIVE_ERROR, ABSOLUTE_ERROR = 1e-10, 1e-14


class InvalidComparison(TangentbenchError):
    """Numbers that no network, start or sample has."""


@dataclass(frozen=True)
class Split:
    """phi(z) = alpha z + eta psi(z)."""

    alpha: float
    eta: float

    @classmethod
    def unit(cls, epsilon: float) -> Split:
        """The thesis's: psi(z) = max(0, -z), the reference is the linear network itself."""
        _within("epsilon", epsilon, 0, 1)
        return cls(1.0, epsilon)

    @classmethod
    def centred(cls, epsilon: float) -> Split:
        """psi(z) = |z|, half as far away; the reference has the activation (1 - epsilon/2) z."""
        _within("epsilon", epsilon, 0, 1)
        return cls(1 - epsilon / 2, epsilon / 2)

    def omega(self, depth: int) -> float:
        """What the activations multiply the linear network with: alpha^(L-1)."""
        return float(self.alpha ** (depth - 1))

    def layers(self, depth: int) -> float:
        """A = 1 + alpha + ... + alpha^(L-2), at most L - 1."""
        return float(sum(self.alpha**power for power in range(depth - 1)))


@dataclass(frozen=True)
class Flow:
    """What of start and sample the distance depends on.

    depth: L, the layers with weights. beta: at least every |W_l(0)|. rho: max(1, |W_1(0)|_F / beta).
    signal: s = |Y X^T| / m of the inputs the network is trained on.
    largest, skew: lambda_max(M) and |M - I| of their second moment M = X X^T / m; 1 and 0 if they are exactly white.
    rounding: varpi, how far the q that the reference is trained on may lie from q.
    """

    depth: int
    beta: float
    rho: float = 1.0
    signal: float = 1.0
    largest: float = 1.0
    skew: float = 0.0
    rounding: float = 0.0

    def __post_init__(self) -> None:
        if self.depth < 2:
            raise InvalidComparison(f"depth is {self.depth}: a network has at least 2 layers with weights")
        _within("beta", self.beta, 0, math.inf)
        _within("rho", self.rho, 1, math.inf, closed=True)
        _within("largest", self.largest, 0, math.inf)
        for name in ("signal", "skew", "rounding"):
            _within(name, getattr(self, name), 0, math.inf, closed=True)


def _within(name: str, value: float, low: float, high: float, *, closed: bool = False) -> None:
    fits = low <= value if closed else low < value
    if not (math.isfinite(value) and fits and value <= high):
        relation = "at least" if closed else "above"
        limit = "" if math.isinf(high) else f" and at most {high:g}"
        raise InvalidComparison(f"{name} is {value:g}: it is {relation} {low:g}{limit}")


@dataclass(frozen=True)
class Distances:
    """The solution of system (S) at `times`, each an array of their length; infinite once the system has blown up."""

    flow: Flow
    split: Split
    times: Array
    a0: Array
    b0: Array
    c0: Array
    p: Array
    r: Array

    @property
    def a(self) -> Array:
        """At least |W_1|."""
        return self.a0 + self.split.eta * self.p

    @property
    def b(self) -> Array:
        """At least |W_1|_F."""
        return self.b0 + self.split.eta * self.p

    @property
    def c(self) -> Array:
        """At least |W_l|, l >= 2."""
        return self.c0 + self.split.eta * self.r

    @property
    def spread(self) -> Array:
        """K: f_W and f_V are at most eta K apart in the mean over inputs of second moment I (proposition 6)."""
        return self._spread(self.b0)

    @property
    def pointwise(self) -> Array:
        """K_op: f_W and f_V are at most eta K_op |x| apart at every single x."""
        return self._spread(self.a0)

    def _spread(self, first: Array) -> Array:
        power = self.flow.depth - 1
        with np.errstate(invalid="ignore", over="ignore"):
            values = self.p * self.c**power + first * self.r * _telescope(self.c, self.c0, power)
        return np.where(np.isfinite(self.p), values, np.inf)


def _telescope(c: Array | float, c0: Array | float, terms: int) -> Array:
    """T_k = sum over i < k of c^i c0^(k-1-i)."""
    total = np.zeros(np.shape(c))
    for power in range(terms):
        total = total + np.asarray(c) ** power * np.asarray(c0) ** (terms - 1 - power)
    return total


def distances(flow: Flow, split: Split, times: Array) -> Distances:
    """Solve system (S) up to each of `times` (growing, from 0 on)."""
    grid = np.atleast_1d(np.asarray(times, dtype=np.float64))
    if grid.ndim != 1 or not np.isfinite(grid).all() or (grid < 0).any() or (np.diff(grid) < 0).any():
        raise InvalidComparison("times are finite numbers from 0 on that do not fall")
    start = np.array([flow.beta, flow.rho * flow.beta, flow.beta, 0.0, 0.0])

    def blown_up(_: float, state: Array) -> float:
        return float(BLOWN_UP - np.abs(state).max())

    blown_up.terminal = True  # type: ignore[attr-defined]
    solved = solve_ivp(
        lambda _, state: _slope(state, flow, split),
        (0.0, max(float(grid[-1]), np.finfo(float).tiny)),
        start,
        method="DOP853",
        t_eval=grid,
        events=blown_up,
        rtol=RELATIVE_ERROR,
        atol=ABSOLUTE_ERROR * min(1.0, flow.beta),
    )
    values = np.full((len(start), len(grid)), np.inf)
    values[:, : len(solved.t)] = np.reshape(solved.y, (len(start), len(solved.t)))
    return Distances(flow, split, grid, *values)


def _slope(state: Array, flow: Flow, split: Split) -> Array:
    """The right side of (S); its derivation, line by line, is in docs/nearly_linear.md."""
    a0, b0, c0, p, r = state
    power, omega, eta = flow.depth - 1, split.omega(flow.depth), split.eta
    a, b, c = a0 + eta * p, b0 + eta * p, c0 + eta * r
    sigma = flow.signal + flow.rounding + omega * flow.beta**flow.depth
    root, layers = math.sqrt(flow.largest), split.layers(flow.depth)
    one = 1 + root * flow.rho * flow.beta**flow.depth
    near, nearer = float(_telescope(c, c0, power)), float(_telescope(c, c0, power - 1))
    residual = (
        omega * (p * c**power + a0 * r * near)
        + flow.largest * layers * b * c**power
        + (flow.rounding + omega * flow.skew * a * c**power) / eta
    )
    first = omega * sigma * c0**power
    return np.array(
        [
            first,
            first,
            omega * sigma * a0 * c0 ** (power - 1),
            omega * sigma * r * near + c**power * (omega * residual + root * layers * one),
            omega * sigma * (c ** (power - 1) * p + a0 * r * nearer)
            + c ** (power - 1) * (omega * a * residual + root * layers * one * b),
        ]
    )
