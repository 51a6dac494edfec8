"""Gradient flow of a cross-entropy on a kernel."""

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import expit, softmax

from tangentbench.errors import UnknownName
from tangentbench.training.engines.kernel_flow import integrate, predicted_classes, targets


def kernel(count: int) -> np.ndarray:
    features = np.random.default_rng(0).normal(size=(count, 20))
    return features @ features.T / 20


@pytest.mark.parametrize(("loss", "classes"), [("binary_cross_entropy", 2), ("cross_entropy", 3)])
def test_small_steps_follow_the_differential_equation(loss: Any, classes: int) -> None:
    gram = kernel(9)
    wanted = targets(np.arange(9) % classes, classes, loss)
    curvature = {"binary_cross_entropy": 0.25, "cross_entropy": 0.5}[loss]
    share, steps = 1e-3, 2000
    flow = integrate(gram, wanted, loss=loss, steps=steps, step_share=share)
    time = steps * share * 2 * 9 / (curvature * np.linalg.eigvalsh(gram)[-1])

    def change(_: Any, f: Any) -> Any:
        f = f.reshape(wanted.shape)
        p = expit(f) if loss == "binary_cross_entropy" else softmax(f, axis=1)
        return (gram @ (wanted - p) / 9).ravel()

    exact = solve_ivp(change, (0, time), np.zeros(wanted.size), rtol=1e-9, atol=1e-11).y[:, -1].reshape(wanted.shape)
    assert np.abs(flow.outputs - exact).max() < 5e-3 * np.abs(exact).max()


def test_coefficients_give_the_outputs_and_the_loss_falls() -> None:
    gram = kernel(8)
    wanted = targets(np.arange(8) % 2, 2, "binary_cross_entropy")
    start = np.random.default_rng(1).normal(size=(8, 1))
    losses = []
    for steps in (0, 10, 100, 1000):
        flow = integrate(gram, wanted, loss="binary_cross_entropy", steps=steps, step_share=0.5, start=start)
        assert np.allclose(flow.outputs, start + gram @ flow.coefficients)
        losses.append(flow.loss)
    assert losses == sorted(losses, reverse=True)
    assert (predicted_classes(flow.outputs, "binary_cross_entropy") == np.arange(8) % 2).all()


def test_the_largest_stable_step_is_stable_and_twice_it_is_not() -> None:
    """At the optimum of balanced noise p = 1/2, where the curvature is largest."""
    gram = np.ones((4, 4))
    wanted = targets(np.array([0, 1, 0, 1]), 2, "binary_cross_entropy")
    start = np.full((4, 1), 1e-3)
    ends = [
        np.abs(
            integrate(gram, wanted, loss="binary_cross_entropy", steps=50, step_share=share, start=start).outputs
        ).max()
        for share in (0.9, 1.1)
    ]
    assert ends[0] < 1e-3 < ends[1]


def test_unknown_loss() -> None:
    with pytest.raises(UnknownName, match="hinge"):
        integrate(kernel(2), np.zeros((2, 1)), loss="hinge", steps=1, step_share=0.5)
