"""E[f(a) f(b)] and E[f'(a) f'(b)] of a function without a closed form, with the error it may have.

In Hermite polynomials f(s X) = sum_i c_i(s) h_i(X), and the expectation at correlation rho is the sum of
c_i(s) c_i(s') rho^i. What is left out beyond degree D is at most |rho|^(D+1) times the roots of both functions' tails,
which are known: E[f(s X)^2] less the squares that were summed. Where that passes TOLERANCE, as for kinks and nearly
parallel inputs, the entry is integrated in two dimensions, split at the kinks.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tangentbench.errors import TangentbenchError
from tangentbench.theory.activations import Activation
from tangentbench.theory.duals import hermite_polynomials
from tangentbench.theory.gaussian_pairs import SMALLEST_VARIANCE, PairDual, correlation
from tangentbench.theory.quadrature import (
    Function,
    conditional_rule,
    expectation,
    gaussian_rule,
    outer_breakpoints,
)

DEGREE = 256
TOLERANCE = 1e-11
"""Of the standard deviations of both values: the error that is stated for an expectation."""
ENTRIES_AT_ONCE = 1 << 14
TRIAL_CUT = 0.1234
"""A rule that is cut here as well agrees with one that is not, unless the function bends where it did not say."""
UNSTATED = 1e-8


def pair_of(record: Activation) -> PairDual:
    """Both expectations for any variances: the closed form where there is one, else to TOLERANCE."""
    return record.pair if record.pair is not None else quadrature_pair(record)


def quadrature_pair(record: Activation) -> PairDual:
    def pair(sigma: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        rho, _ = correlation(np.asarray(sigma, dtype=float), first, second)
        roots = [np.sqrt(np.maximum(np.broadcast_to(v, rho.shape), SMALLEST_VARIANCE)).ravel() for v in (first, second)]
        k1 = _expectations(record.function, record, rho.ravel(), *roots).reshape(rho.shape)
        if record.derivative is None:
            return k1, None
        return k1, _expectations(record.derivative, record, rho.ravel(), *roots).reshape(rho.shape)

    return pair


def _expectations(f: Function, record: Activation, rho: np.ndarray, s1: np.ndarray, s2: np.ndarray) -> np.ndarray:
    known, place = np.unique(np.concatenate([s1, s2]), return_inverse=True)
    series, tails, deviations = _series(f, record, known)
    one, other = place[: len(s1)], place[len(s1) :]
    out = np.empty(len(rho))
    for start in range(0, len(rho), ENTRIES_AT_ONCE):
        part = slice(start, start + ENTRIES_AT_ONCE)
        products = series[one[part]] * series[other[part]]
        value = products[:, DEGREE].copy()
        for degree in range(DEGREE - 1, -1, -1):
            value *= rho[part]
            value += products[:, degree]
        out[part] = value
    bound = np.abs(rho) ** (DEGREE + 1) * np.sqrt(tails[one] * tails[other])
    for entry in np.flatnonzero(bound > TOLERANCE * deviations[one] * deviations[other]):
        out[entry] = integral(f, record.kinks, float(rho[entry]), float(s1[entry]), float(s2[entry]))
    return out


def _series(f: Function, record: Activation, deviations: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients (deviations, DEGREE + 1), squares left out and roots of the second moments, each (deviations,)."""
    coefficients, tails, roots = np.empty((len(deviations), DEGREE + 1)), *np.empty((2, len(deviations)))
    for number, s in enumerate(deviations.tolist()):
        kinks = tuple(kink / s for kink in record.kinks if abs(kink) < 1e3 * s)
        nodes, weights = gaussian_rule(kinks)
        values = f(s * nodes)
        coefficients[number] = _polynomials(kinks) @ (weights * values)
        second = float(weights @ np.square(values))
        trial = expectation(lambda x, s=s: np.square(f(s * x)), (*kinks, TRIAL_CUT, -TRIAL_CUT / 3))  # type: ignore[misc]
        if not abs(trial - second) <= UNSTATED * abs(second):
            raise TangentbenchError(
                f"the activation {record.name} bends or jumps where its kinks do not say, so its kernel cannot be "
                "integrated: give it as a record of theory.activations with `kinks` and `derivative`"
            )
        tails[number] = max(second - float(np.square(coefficients[number]).sum()), 0.0)
        roots[number] = second**0.5
    return coefficients, tails, roots


@lru_cache(maxsize=8)
def _polynomials(kinks: tuple[float, ...]) -> np.ndarray:
    return hermite_polynomials(gaussian_rule(kinks)[0], DEGREE)


def integral(f: Function, kinks: tuple[float, ...], rho: float, s1: float, s2: float) -> float:
    """E[f(s1 X) f(s2 Y)] at correlation rho, split where either function bends."""
    mine, others = tuple(kink / s1 for kink in kinks), tuple(kink / s2 for kink in kinks)
    spread = float(np.sqrt((1 - rho) * (1 + rho)))
    if spread == 0.0:
        return expectation(lambda x: f(s1 * x) * f(s2 * rho * x), (*mine, *(rho * kink for kink in others)))
    cuts = tuple(sorted({*mine, *outer_breakpoints(rho, spread, others)}))
    nodes, weights = gaussian_rule(cuts)
    inner, inner_weights = conditional_rule(nodes, rho, spread, others)
    return float(weights @ (f(s1 * nodes) * (f(s2 * (rho * nodes[:, None] + spread * inner)) * inner_weights).sum(1)))
