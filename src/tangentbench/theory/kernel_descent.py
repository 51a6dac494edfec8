"""Gradient descent on squared loss with a fixed kernel: how many steps it takes, and what the condition number says.

The errors follow e_(t+1) = (I - eta K) e_t, so the loss is known at every step without taking one. With the step
eta = 1/lambda_max the slowest direction shrinks by 1 - 1/kappa a step.
"""

from __future__ import annotations

import numpy as np

MOST_STEPS = 10**15


def steps_to_ratio(kernel: np.ndarray, errors: np.ndarray, ratio: float) -> int | None:
    """Steps of size 1/lambda_max until ||e_t||^2 <= ratio ||e_0||^2, for a kernel (n, n) and first errors (n,).

    None where the kernel is singular to rounding along the errors, so that the ratio is never reached.
    """
    eigenvalues, vectors = np.linalg.eigh(kernel)
    shares = (vectors.T @ errors) ** 2 / np.sum(errors**2)
    rates = np.log1p(-np.clip(eigenvalues / eigenvalues[-1], 0.0, 1.0 - 1e-16))

    def loss(steps: int) -> float:
        return float(shares @ np.exp(2.0 * steps * rates))

    high = 1
    while loss(high) > ratio:
        high *= 2
        if high > MOST_STEPS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if loss(middle) > ratio else (low, middle)
    return high if loss(0) > ratio else 0


def steps_from_condition_number(excess: float, ratio: float) -> float:
    """log(1/ratio) / (-2 log(1 - 1/kappa)) with kappa = 1 + excess: enough steps whatever the errors are."""
    return float(np.log(1.0 / ratio) / (2.0 * np.log1p(1.0 / excess))) if excess > 0 else 1.0


def theorem50_steps(excess: float, ratio: float) -> float:
    """4 kappa log(1/ratio), from L(w_t) <= exp(-t / (4 kappa)) L(w_0) of Theorem 50."""
    return float(4.0 * (1.0 + excess) * np.log(1.0 / ratio))
