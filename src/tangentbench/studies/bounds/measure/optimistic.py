"""Figures D.1 and D.2: the bound (D.1) with its terms measured on the test set, for three proxy models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tangentbench.networks.leaky_mlp import RegressionTask
from tangentbench.studies.bounds.measure.runs import Array, Family, TrainedRuns, task_with_side, train, train_linear
from tangentbench.studies.bounds.settings import Optimistic
from tangentbench.studies.registry import Context, study
from tangentbench.theory.nearly_linear import misclassification_risk, optimistic_bound

_RANDOM_GUESS = 0.5
_RELATIVE_RANK = 1e-6
"""Eigenvalues of X~ X~^T / m are 1 on the span of the inputs and 0 off it."""
Pair = tuple[Array, Array]
Phases = NDArray[np.int64]


@study("bounds_figD_1")
@study("bounds_figD_2")
def optimistic(context: Context, settings: Optimistic) -> pd.DataFrame:
    """One row per run, proxy, gamma and time.

    Columns: `margin_risk`, `gap`, `distance` and `bound` of (D.1); `train_risk`, `test_risk`, `loss` of the network;
    `linear_risk` and `linear_loss` of the best linear model on the training set; `phase` of the training; `best_bound`,
    the smallest over gamma at each time; `nearest`, 1 where no other proxy is nearer to the network;
    `largest_epsilon_both_phases` and `_throughout`, up to which the proxy's bound gets, or stays, below 0.5 in both of
    the first two phases; `_throughout_late`, the last with the second phase ending at `late_phase_margin`.
    """
    task = task_with_side(context, settings.side, settings.samples)
    family = Family.of(settings, task, settings.depth, context.seed)
    network, linear = train(context, family, settings.solver), train_linear(family)
    frames = []
    for position, run in enumerate(family.runs):
        rows = _run_rows(network, linear, position, settings)
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
    good = (ends < _RANDOM_GUESS).groupby(["seed", "beta", "proxy", "epsilon"]).all().unstack("epsilon")
    unbroken = good.sort_index(axis=1).cumprod(axis=1)
    largest = (unbroken * unbroken.columns.to_numpy(dtype=float)).max(axis=1).rename("largest")
    keys = ["seed", "beta", "proxy"]
    return table[keys].join(largest, on=keys)["largest"]


def _run_rows(network: TrainedRuns, linear: TrainedRuns, position: int, settings: Optimistic) -> pd.DataFrame:
    task = network.family.task
    labels = task.y_train.numpy().astype(np.float64), task.y_test.numpy().astype(np.float64)
    own = _outputs(network, position)
    proxies = _proxy_outputs(own, linear, position, settings.proxies)
    common = _common_columns(network, own, labels, settings)
    return pd.concat(
        [
            common.assign(proxy=proxy, gamma=gamma, **optimistic_bound(labels, own, outputs, gamma))
            for proxy, outputs in proxies.items()
            for gamma in settings.gammas
        ]
    )


def _outputs(trained: TrainedRuns, position: int, epsilon: float | None = None) -> Pair:
    """Of a run on the training and the test set; `epsilon` replaces its nonlinearity."""
    task = trained.family.task
    return trained.outputs(position, task.x_train, epsilon), trained.outputs(position, task.x_test, epsilon)


def _proxy_outputs(own: Pair, linear: TrainedRuns, position: int, proxies: Sequence[str]) -> dict[str, Pair]:
    """Of the proxy models, which have the linear network's weights and the network's nonlinearity, or none."""
    first = _outputs(linear, position)
    outputs: dict[str, Pair] = {}
    for proxy in proxies:
        if proxy == "kappa_1":
            outputs[proxy] = first
        elif proxy == "kappa_2":
            outputs[proxy] = corrected(own[0], first, linear.family.task)
        else:
            outputs[proxy] = _outputs(linear, position, epsilon=0.0)
    return outputs


def _common_columns(network: TrainedRuns, own: Pair, labels: Pair, settings: Optimistic) -> pd.DataFrame:
    """What is the same for all proxies: the network's loss and risks, the best linear model's, and the phases."""
    task = network.family.task
    loss = 0.5 * np.mean((labels[0] - own[0]) ** 2, axis=1)
    fitted = task.x_train.numpy() @ _best_linear(task)
    linear_loss = 0.5 * float(np.mean((labels[0] - fitted) ** 2))
    linear_risk = float(misclassification_risk(labels[0], fitted))
    train_risk = misclassification_risk(labels[0], own[0])
    return pd.DataFrame(
        {
            "time": network.family.times,
            "loss": loss,
            "train_risk": train_risk,
            "test_risk": misclassification_risk(labels[1], own[1]),
            "linear_loss": linear_loss,
            "linear_risk": linear_risk,
            "phase": training_phases(loss, train_risk, linear_loss, linear_risk, settings.phase_margin),
            "late_phase": training_phases(loss, train_risk, linear_loss, linear_risk, settings.late_phase_margin),
        }
    )


def corrected(network_on_train: Array, first: Pair, task: RegressionTask) -> Pair:
    """The proxy of second order (6.25): the first one plus the linear map that fits what it lacks on the train set."""
    x_train, x_test = task.x_train.numpy().astype(np.float64), task.x_test.numpy().astype(np.float64)
    inverse = np.linalg.pinv(task.moment, rcond=_RELATIVE_RANK, hermitian=True)
    correction = (network_on_train - first[0]) @ x_train / task.samples @ inverse
    return first[0] + correction @ x_train.T, first[1] + correction @ x_test.T


def _best_linear(task: RegressionTask) -> Array:
    """Y X~^+, shape (d,)."""
    inverse = np.linalg.pinv(task.moment, rcond=_RELATIVE_RANK, hermitian=True)
    return np.asarray(task.correlation @ inverse)


def training_phases(loss: Array, risk: Array, linear_loss: float, linear_risk: float, margin: float) -> Phases:
    """0 before the risk is halfway to the best linear model's, 1 before the loss is, 2 at the best linear model's loss,
    3 once a share `margin` below it.
    """
    phase = np.where(risk > 0.5 * (risk[0] + linear_risk), 0, 1)
    phase = np.where(loss < 0.5 * (loss[0] + linear_loss), 2, phase)
    return np.where(loss < (1 - margin) * linear_loss, 3, phase)
