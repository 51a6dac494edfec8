"""The test error of a nearly-linear network, bounded by its train margins: theorem 7 of docs/nearly_linear.md.

The network is compared with a proxy that depends on few numbers of the sample; proxies are counted, each has its own
Hoeffding or Chernoff inequality, and a union bound joins them. What is chosen after a look at the sample (time, margin,
radii) comes from grids that are fixed before, and their sizes are paid for in the same union.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from tangentbench.theory.nearly_linear.comparison import Distances, InvalidComparison

Array = NDArray[np.float64]
Proxy = Literal["linear", "first", "second"]
"""linear: omega W_L ... W_1 x. first (the thesis's kappa = 1): f_V. second (kappa = 2): f_V plus a linear map."""


def binary_kl(a: float, z: float) -> float:
    """a ln(a/z) + (1-a) ln((1-a)/(1-z))."""
    total = 0.0
    for share, other in ((a, z), (1 - a, 1 - z)):
        if share > 0:
            total += math.inf if other <= 0 else share * math.log(share / other)
    return total


def kl_inverse(a: float, x: float) -> float:
    """The largest z in [a, 1] with kl(a || z) <= x; 1 where a is at least 1."""
    if a < 0 or x < 0 or math.isnan(a) or math.isnan(x):
        raise InvalidComparison(f"kl's inverse takes numbers that are not negative, not {a:g} and {x:g}")
    if a >= 1 or math.isinf(x):
        return 1.0
    if x == 0:
        return a
    top = 1 - 2.0**-53
    if binary_kl(a, top) <= x:
        return 1.0
    root = brentq(lambda z: binary_kl(a, z) - x, max(a, 0.0), top, xtol=1e-15)
    return min(1.0, float(root) + 1e-14)


@dataclass(frozen=True)
class Count:
    """How many proxies there are, as the logarithm of a net's size.

    rounding: the net's radius around q, which goes into `Flow.rounding`; correction: that around the linear part.
    """

    logarithm: float
    rounding: float
    correction: float


def net(proxy: Proxy, dimension: int, *, largest: float, rounding: float, radius: float, correction: float) -> Count:
    """Nets of balls: q of norm `largest` up to `rounding`, the linear part of norm `radius` up to `correction`."""
    of_q = dimension * math.log1p(2 * largest / rounding) if proxy != "linear" else 0.0
    of_correction = dimension * math.log1p(2 * radius / correction) if proxy != "first" else 0.0
    return Count(of_q + of_correction, rounding if proxy != "linear" else 0.0, correction if proxy != "first" else 0.0)


def bits(proxy: Proxy, dimension: int, per_number: float, *, largest: float, radius: float) -> Count:
    """Grids of 2^per_number points per coordinate: the thesis's finite precision, with its rounding."""
    step = math.sqrt(dimension) * 2.0**-per_number
    numbers = {"linear": 1, "first": 1, "second": 2}[proxy]
    return Count(
        numbers * per_number * dimension * math.log(2),
        step * largest if proxy != "linear" else 0.0,
        step * radius if proxy != "first" else 0.0,
    )


def proxy_distance(proxy: Proxy, distances: Distances, correction: float, *, pointwise: bool = False) -> Array:
    """How far network and proxy are apart: in the mean over inputs of second moment I, or per |x| at every single x."""
    split, depth = distances.split, distances.flow.depth
    spread = distances.pointwise if pointwise else distances.spread
    if proxy == "first":
        return split.eta * spread
    if proxy == "second":
        return split.eta**2 * split.layers(depth) * spread + correction
    first = distances.a if pointwise else distances.b
    return split.eta * split.layers(depth) * first * distances.c ** (depth - 1) + correction


def correction_radius(proxy: Proxy, distances: Distances) -> Array:
    """At least the norm of the linear part that a proxy is given, at each time."""
    split, depth = distances.split, distances.flow.depth
    omega = split.omega(depth)
    if proxy == "linear":
        return omega * distances.a * distances.c ** (depth - 1)
    return omega * split.eta * distances.pointwise


@dataclass(frozen=True)
class Sample:
    """examples: m. largest_train, largest_test: of the second moments of the inputs as the network sees them.

    largest_test: 1 says that the population's second moment is known and whitened; None that nothing is known of it,
    and then `norms`, the lengths of the m training inputs, are needed.
    """

    examples: int
    largest_train: float = 1.0
    largest_test: float | None = 1.0
    norms: Array | None = None


@dataclass(frozen=True)
class RiskBound:
    """The bound and its terms: kl^-1(train + shift_train; complexity) + shift_test, or all added up by Hoeffding."""

    total: float
    train: float
    complexity: float
    shift_train: float
    shift_test: float

    @property
    def vacuous(self) -> bool:
        return self.total >= 0.5


def risk_bound(
    train: float,
    gamma: float,
    distance: float,
    sample: Sample,
    nats: float,
    *,
    inequality: Literal["kl", "hoeffding"] = "kl",
    test: TestShift | None = None,
) -> RiskBound:
    """Theorem 7. train: `continuous_margin_risk` at `gamma`; distance: `proxy_distance`; nats: ln(N / delta), unions.

    test: how the test side is bounded where `sample.largest_test` is None.
    """
    if sample.examples < 1:
        raise InvalidComparison("a bound needs at least one example")
    shift_train = math.sqrt(sample.largest_train) * distance / gamma
    if sample.largest_test is not None:
        shift_test = math.sqrt(sample.largest_test) * distance / gamma
    elif test is None:
        raise InvalidComparison("nothing is known of the test inputs' second moment: give `test`, or largest_test")
    else:
        shift_test = test.shift(gamma, sample)
    if inequality == "hoeffding":
        complexity = math.sqrt(nats / (2 * sample.examples))
        total = train + shift_train + complexity + shift_test
    else:
        complexity = nats / sample.examples
        total = kl_inverse(min(1.0, train + shift_train), complexity) + shift_test
    return RiskBound(min(1.0, total), train, complexity, shift_train, shift_test)


@dataclass(frozen=True)
class TestShift:
    """(T2): E min(1, k |x|), bounded from the training inputs' lengths, for k from a geometric grid fixed before.

    slope: `proxy_distance(..., pointwise=True)`. nats: ln(1 / delta'), delta' the confidence spent here.
    """

    __test__ = False  # not a test, whatever pytest thinks of its name

    slope: float
    nats: float
    smallest: float = 1e-8
    factor: float = 1.1

    @property
    def grid(self) -> int:
        """Values of k between `smallest` and 1, and infinity."""
        return 2 + math.ceil(math.log(1 / self.smallest) / math.log(self.factor))

    def shift(self, gamma: float, sample: Sample) -> float:
        if sample.norms is None:
            raise InvalidComparison("the lengths of the training inputs are needed: give `norms`")
        wanted = self.slope / gamma
        if not wanted <= 1:
            return 1.0
        steps = max(0, math.ceil(math.log(max(wanted, self.smallest) / self.smallest) / math.log(self.factor)))
        k = self.smallest * self.factor**steps
        if k < wanted:
            k *= self.factor
        mean = float(np.minimum(1.0, k * sample.norms).mean())
        return kl_inverse(mean, (self.nats + math.log(self.grid)) / sample.examples)
