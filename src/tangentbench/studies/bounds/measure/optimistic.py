"""Figures D.1 and D.2: the bound (D.1) with its terms measured on the test set, for three proxy models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tangentbench.errors import UnknownName
from tangentbench.networks.leaky_mlp import Task
from tangentbench.studies.bounds.measure.runs import (
    Array,
    Trained,
    grid,
    horizon,
    task_with_side,
    time_grid,
    train,
    train_linear,
)
from tangentbench.studies.registry import Context, study
from tangentbench.theory.nearly_linear import misclassification_risk, optimistic_bound

RANDOM_GUESS = 0.5
PROXIES = ("kappa_1", "kappa_2", "linear")
RELATIVE_RANK = 1e-6
"""Eigenvalues of X~ X~^T / m are 1 on the span of the inputs and 0 off it."""
Pair = tuple[Array, Array]
Phases = NDArray[np.int64]


@study("bounds_figD_1")
@study("bounds_figD_2")
def optimistic(
    context: Context,
    *,
    samples: int,
    sides: Sequence[int],
    betas: Sequence[float],
    epsilons: Sequence[float],
    proxies: Sequence[str],
    depths: Sequence[int],
    input_layers: Sequence[str],
    gammas: Sequence[float],
    phase_margin: float,
    late_phase_margin: float,
    time_in_learning_times: float,
    learnt_fraction: float,
    first_time_share: float,
    time_points: int,
    runs: int,
    network: Mapping[str, Any],
    solver: str,
) -> pd.DataFrame:
    """One row for each run, proxy, gamma and time.

    Columns: `margin_risk`, `gap`, `distance` and `bound` of (D.1); `train_risk`, `test_risk`, `loss` of the network;
    `linear_risk` and `linear_loss` of the best linear model on the training set; `phase` of the training; `best_bound`,
    the smallest over gamma at each time; `nearest`, 1 where no other proxy is nearer to the network;
    `largest_epsilon_both_phases` and `_throughout`, up to which the proxy's bound gets, or stays, below 0.5 in both of
    the first two phases; `_throughout_late`, the last with the second phase ending at `late_phase_margin`.
    """
    for proxy in proxies:
        if proxy not in PROXIES:
            raise UnknownName("proxy model", proxy, PROXIES)
    (side,), (depth,) = sides, depths
    task = task_with_side(context, side, samples)
    wanted = grid(betas, epsilons, input_layers, runs)
    end = horizon(wanted, task, depth, time_in_learning_times, learnt_fraction)
    times = time_grid(end, time_points, first_time_share)
    network_runs = train(context, task, wanted, times, depth=depth, network=network, solver=solver)
    linear_runs = train_linear(context, task, wanted, times, depth=depth, network=network)
    frames = []
    for position, run in enumerate(wanted):
        rows = run_rows(network_runs, linear_runs, position, task, proxies, gammas, (phase_margin, late_phase_margin))
        frames.append(rows.assign(seed=run.seed, beta=run.beta, epsilon=run.epsilon))
    table = pd.concat(frames, ignore_index=True)
    at_a_time = ["seed", "beta", "epsilon", "time"]
    table["best_bound"] = table.groupby([*at_a_time, "proxy"])["bound"].transform("min")
    table["largest_epsilon_both_phases"] = largest_epsilon(table, "min")
    table["largest_epsilon_throughout"] = largest_epsilon(table, "max")
    table["largest_epsilon_throughout_late"] = largest_epsilon(table, "max", "late_phase")
    table["nearest"] = (table["distance"] == table.groupby(at_a_time)["distance"].transform("min")).astype(float)
    return table


def largest_epsilon(table: pd.DataFrame, reduce: str, phase: str = "phase") -> pd.Series:
    """For each row's seed, beta and proxy, up to which epsilon the `min` or `max` of each phase's bound is below 0.5.

    Zero where not even the smallest has it.
    """
    phases = table[table[phase].isin([1, 2])]
    ends = phases.groupby(["seed", "beta", "proxy", "epsilon", phase])["best_bound"].agg(reduce)
    good = (ends < RANDOM_GUESS).groupby(["seed", "beta", "proxy", "epsilon"]).all().unstack("epsilon")
    unbroken = good.sort_index(axis=1).cumprod(axis=1)
    largest = (unbroken * unbroken.columns.to_numpy(dtype=float)).max(axis=1).rename("largest")
    keys = ["seed", "beta", "proxy"]
    return table[keys].join(largest, on=keys)["largest"]


def run_rows(
    network: Trained,
    linear: Trained,
    position: int,
    task: Task,
    proxies: Sequence[str],
    gammas: Sequence[float],
    margins: tuple[float, float],
) -> pd.DataFrame:
    labels = task.y_train.numpy().astype(np.float64), task.y_test.numpy().astype(np.float64)
    inputs = (task.x_train, task.x_test)
    own: Pair = (network.outputs(position, inputs[0]), network.outputs(position, inputs[1]))
    # with the linear network's weights the proxies need the nonlinearity of the network itself, or none
    first: Pair = tuple(linear.outputs(position, x) for x in inputs)  # type: ignore[assignment]
    outputs: dict[str, Pair] = {}
    for proxy in proxies:
        if proxy == "kappa_1":
            outputs[proxy] = first
        elif proxy == "kappa_2":
            outputs[proxy] = corrected(own[0], first, task)
        else:
            outputs[proxy] = tuple(linear.outputs(position, x, epsilon=0.0) for x in inputs)  # type: ignore[assignment]
    loss = 0.5 * np.mean((labels[0] - own[0]) ** 2, axis=1)
    best = best_linear(task)
    fitted = task.x_train.numpy() @ best
    linear_loss = 0.5 * float(np.mean((labels[0] - fitted) ** 2))
    linear_risk = float(misclassification_risk(labels[0], fitted))
    train_risk = misclassification_risk(labels[0], own[0])
    common = pd.DataFrame(
        {
            "time": network.times,
            "loss": loss,
            "train_risk": train_risk,
            "test_risk": misclassification_risk(labels[1], own[1]),
            "linear_loss": linear_loss,
            "linear_risk": linear_risk,
            "phase": training_phases(loss, train_risk, linear_loss, linear_risk, margins[0]),
            "late_phase": training_phases(loss, train_risk, linear_loss, linear_risk, margins[1]),
        }
    )
    return pd.concat(
        [
            common.assign(proxy=proxy, gamma=gamma, **optimistic_bound(labels, own, outputs[proxy], gamma))
            for proxy in proxies
            for gamma in gammas
        ]
    )


def corrected(network_on_train: Array, first: Pair, task: Task) -> Pair:
    """The proxy of second order (6.25): the first one plus the linear map that fits what it lacks on the train set."""
    x_train, x_test = task.x_train.numpy().astype(np.float64), task.x_test.numpy().astype(np.float64)
    inverse = np.linalg.pinv(task.moment, rcond=RELATIVE_RANK, hermitian=True)
    correction = (network_on_train - first[0]) @ x_train / task.samples @ inverse
    return first[0] + correction @ x_train.T, first[1] + correction @ x_test.T


def best_linear(task: Task) -> Array:
    """Y X~^+, shape (d,)."""
    inverse = np.linalg.pinv(task.moment, rcond=RELATIVE_RANK, hermitian=True)
    return np.asarray(task.correlation @ inverse)


def training_phases(loss: Array, risk: Array, linear_loss: float, linear_risk: float, margin: float) -> Phases:
    """0 before the risk is halfway to the best linear model's, 1 before the loss is, 2 at the best linear model's loss,
    3 once a share `margin` below it.
    """
    phase = np.where(risk > 0.5 * (risk[0] + linear_risk), 0, 1)
    phase = np.where(loss < 0.5 * (loss[0] + linear_loss), 2, phase)
    return np.where(loss < (1 - margin) * linear_loss, 3, phase)
