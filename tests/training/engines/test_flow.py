"""The adaptive solver against scipy's and against plain descent; both go on where a killed job left them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.special import expit

from tangentbench.errors import Diverged, UnknownName
from tangentbench.training.checkpoint import Checkpoint
from tangentbench.training.engines.flow import FlowSolver, follow

Array = NDArray[np.float64]
RATES = np.array([0.5, 1.0, 3.0])


def logistic(weights: Array, runs: NDArray[np.intp]) -> Array:
    return RATES[runs][:, None] * weights * (1 - weights)


def exact(times: Array, start: Array) -> Array:
    """(K, R, P)"""
    return np.asarray(expit(np.log(start / (1 - start)) + times[:, None, None] * RATES[:, None]))


START = np.array([[0.001, 0.01], [0.002, 0.3], [0.0005, 0.05]])
TIMES = np.concatenate([[0.0], np.geomspace(0.01, 12.0, 40)])


def test_adaptive_runs_follow_the_exact_flow_each_at_its_own_step() -> None:
    flow = follow(logistic, START, TIMES, FlowSolver(tolerance=1e-7), label="logistic")
    np.testing.assert_allclose(flow.weights, exact(TIMES, START), rtol=1e-5)
    assert flow.gradients < 3 * 6 * 90


def test_smaller_tolerances_are_nearer() -> None:
    errors = [
        np.abs(
            follow(logistic, START, TIMES, FlowSolver(tolerance=one), label="logistic").weights - exact(TIMES, START)
        ).max()
        for one in (1e-3, 1e-5, 1e-7)
    ]
    assert errors[0] > 5 * errors[1] > 25 * errors[2]


def test_descent_is_first_order_and_agrees_in_the_limit() -> None:
    coarse, fine = (
        np.abs(
            follow(logistic, START, TIMES, FlowSolver("descent", step=step), label="logistic").weights
            - exact(TIMES, START)
        ).max()
        for step in (0.01, 0.005)
    )
    assert coarse / fine == pytest.approx(2, rel=0.1)
    assert fine < 0.02


def test_a_batch_gives_what_single_runs_give() -> None:
    together = follow(logistic, START, TIMES, FlowSolver(), label="logistic").weights
    alone = follow(lambda w, runs: logistic(w, runs + 1), START[1:2], TIMES, FlowSolver(), label="logistic").weights
    np.testing.assert_allclose(together[:, 1], alone[:, 0], rtol=1e-13)


def test_it_agrees_with_scipy_on_a_coupled_flow() -> None:
    spin = np.array([[0.0, 1.0], [-1.0, -0.1]])
    flow = follow(lambda w, _: w @ spin.T, START[:1], TIMES, FlowSolver(tolerance=1e-8), label="spin").weights
    solved = solve_ivp(lambda _, w: spin @ w, (0, 12), START[0], t_eval=TIMES, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(flow[:, 0], solved.y.T, atol=1e-9)


@pytest.mark.parametrize("method", ["adaptive", "descent"])
def test_a_killed_run_goes_on_where_it_was(method: str, tmp_path: Path) -> None:
    solver = FlowSolver(method, step=0.05)
    whole = follow(logistic, START, TIMES, solver, label="logistic")
    checkpoint = Checkpoint(tmp_path / "flow.npz", identity="a", every_seconds=0.0)
    calls = 0

    def dies(weights: Array, runs: NDArray[np.intp]) -> Array:
        nonlocal calls
        calls += 1
        if calls == 90:
            raise KeyboardInterrupt
        return logistic(weights, runs)

    with pytest.raises(KeyboardInterrupt):
        follow(dies, START, TIMES, solver, label="logistic", checkpoint=checkpoint)
    resumed = follow(logistic, START, TIMES, solver, label="logistic", checkpoint=checkpoint)
    np.testing.assert_array_equal(resumed.weights, whole.weights)
    assert resumed.gradients == whole.gradients


@pytest.mark.parametrize("method", ["adaptive", "descent"])
def test_a_flow_that_leaves_the_numbers_is_named(method: str) -> None:
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(Diverged, match="explosive"):
        follow(lambda w, _: w**2 * 1e3, START, TIMES, FlowSolver(method, step=0.01), label="explosive")


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(UnknownName, match="flow solver"):
        FlowSolver("euler")
