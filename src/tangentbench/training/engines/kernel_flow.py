"""Training in function space: gradient flow of a cross-entropy on a kernel, step by step.

df/dt = -(1/m) K (p(f) - y) on the training points (thesis, equation (2.5) with a fixed kernel); with coefficients
d alpha/dt = -(p(f) - y) / m the outputs anywhere are f_0 + K(., X) alpha. Euler's method with a share of the largest
step at which it is stable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from tangentbench.errors import UnknownName

Float64 = NDArray[np.float64]
CURVATURE = {"binary_cross_entropy": 0.25, "cross_entropy": 0.5}
"""Largest second derivative of the loss by the outputs of one example."""


@dataclass(frozen=True)
class KernelFlowResult:
    outputs: Float64
    """On the training points at the end, (m, k)."""
    coefficients: Float64
    """(m, k)"""
    loss: float
    """Mean over the training points at the end."""


def targets(labels: NDArray[np.integer], classes: int, loss: str) -> Float64:
    """One column of zeros and ones for two classes, otherwise one per class."""
    if loss == "binary_cross_entropy":
        return np.asarray((labels == 1).astype(np.float64)[:, None])
    return np.asarray(np.eye(classes)[labels])


def integrate(
    kernel: Float64, wanted: Float64, *, loss: str, steps: int, step_share: float, start: Float64 | None = None
) -> KernelFlowResult:
    """`steps` of Euler's method from `start` (zero where None); kernel (m, m), wanted (m, k)."""
    if loss not in CURVATURE:
        raise UnknownName("loss", loss, list(CURVATURE))
    count = len(kernel)
    largest = float(np.linalg.eigvalsh(kernel)[-1])
    step = step_share * 2 * count / (CURVATURE[loss] * largest)
    begin = np.zeros_like(wanted) if start is None else start
    outputs, coefficients = begin.copy(), np.zeros_like(wanted)
    for _ in range(steps):
        change = (step / count) * (wanted - _probabilities(outputs, loss))
        coefficients += change
        outputs += kernel @ change
    return KernelFlowResult(outputs, coefficients, _mean_loss(outputs, wanted, loss))


def _probabilities(outputs: Float64, loss: str) -> Float64:
    return np.asarray(expit(outputs) if loss == "binary_cross_entropy" else softmax(outputs, axis=1))


def _mean_loss(outputs: Float64, wanted: Float64, loss: str) -> float:
    if loss == "binary_cross_entropy":
        return float((np.logaddexp(0, outputs) - wanted * outputs).mean())
    return float((np.logaddexp.reduce(outputs, axis=1) - (wanted * outputs).sum(axis=1)).mean())


def predicted_classes(outputs: Float64, loss: str) -> NDArray[np.intp]:
    return (outputs[:, 0] > 0).astype(np.intp) if loss == "binary_cross_entropy" else outputs.argmax(axis=1)
