"""Figures 6.1 to 6.6: the bound of theorem 6.5.2 during training, beside the risks it bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from tangentbench.networks.leaky_mlp import Task
from tangentbench.studies.bounds.measure.runs import Array, Trained, grid, horizon, task_with_side, time_grid, train
from tangentbench.studies.registry import Context, study
from tangentbench.theory.nearly_linear import (
    MENDED,
    Reading,
    Setting,
    bound,
    margin_risk,
    misclassification_risk,
)

RANDOM_GUESS = 0.5
SETTLED = 1.1
"""A run has learnt when its train risk is at most this many times its risk at the end."""


@study("bounds_fig6_1")
@study("bounds_fig6_2")
@study("bounds_fig6_3")
@study("bounds_fig6_4")
@study("bounds_fig6_5")
@study("bounds_fig6_6")
def bound_curves(
    context: Context,
    *,
    samples: int,
    sides: Sequence[int],
    betas: Sequence[float],
    epsilons: Sequence[float],
    kappas: Sequence[int],
    depths: Sequence[int],
    precisions: Sequence[int],
    input_layers: Sequence[str],
    qs: Sequence[float],
    delta: float,
    time_in_learning_times: float,
    learnt_fraction: float,
    first_time_share: float,
    time_points: int,
    runs: int,
    network: Mapping[str, Any],
    solver: str,
    theorem: Mapping[str, str],
) -> pd.DataFrame:
    """One row for each run, kappa, precision, q and time.

    Columns besides the settings: `gamma` = beta^L/q; the measured `margin_risk` (train, at gamma), `train_risk`,
    `test_risk`, `weight_norm` (of the largest layer); the theorem's `weight_bound` u, `upsilon`, `deviation` =
    Delta eps^kappa/gamma, `bound` = margin_risk + upsilon + deviation, and the last two with the factor rho that the
    proof loses (`_mended`); `excess` = bound - test_risk; `best_bound`, the smallest over times and qs, with `best` on
    its row and `non_vacuous` where it is below 0.5; `time_to_learn`.
    """
    frames = []
    for side, depth in product(sides, depths):
        task = task_with_side(context, side, samples)
        wanted = grid(betas, epsilons, input_layers, runs)
        end = horizon(wanted, task, depth, time_in_learning_times, learnt_fraction)
        times = time_grid(end, time_points, first_time_share)
        trained = train(context, task, wanted, times, depth=depth, network=network, solver=solver)
        for run in range(len(wanted)):
            measured = measure_run(trained, run, task, qs)
            choices = product(kappas, precisions, qs)
            rows = [
                curve(trained, run, task, measured, kappa, precision, q, delta, Reading(**theorem))
                for kappa, precision, q in choices
            ]
            frames.append(pd.concat(rows).assign(side=side, learning_time=end / time_in_learning_times))
    return with_best(pd.concat(frames, ignore_index=True))


def measure_run(trained: Trained, run: int, task: Task, qs: Sequence[float]) -> dict[Any, Array]:
    """Risks and weights of a run at all times, each (K,); the margin risks have their q as key."""
    y_train, y_test = task.y_train.numpy(), task.y_test.numpy()
    on_train = trained.outputs(run, task.x_train)
    layers = trained.shape.split(trained.weights[:, run])
    scale = trained.runs[run].beta ** trained.shape.depth
    train_risk = misclassification_risk(y_train, on_train)
    return {
        "train_risk": train_risk,
        "test_risk": misclassification_risk(y_test, trained.outputs(run, task.x_test)),
        "weight_norm": np.max([np.linalg.norm(layer, 2, axis=(1, 2)) for layer in layers], axis=0),
        "time_to_learn": np.full(len(trained.times), first_time_below(trained.times, train_risk)),
        **{q: margin_risk(y_train, on_train, scale / q) for q in qs},
    }


def first_time_below(times: Array, risk: Array) -> float:
    """When the risk has first come near its end, between two times by linear interpolation."""
    level = SETTLED * risk[-1]
    first = int(np.argmax(risk <= level))
    if first == 0:
        return float(times[0])
    share = (risk[first - 1] - level) / (risk[first - 1] - risk[first])
    return float(times[first - 1] + share * (times[first] - times[first - 1]))


def curve(
    trained: Trained,
    index: int,
    task: Task,
    measured: Mapping[Any, Array],
    kappa: int,
    precision: int,
    q: float,
    delta: float,
    reading: Reading,
) -> pd.DataFrame:
    run, depth = trained.runs[index], trained.shape.depth
    setting = Setting(depth, run.epsilon, run.beta, trained.rho(index), task.s)
    gamma = run.beta**depth / q
    fixed = {"kappa": kappa, "dimension": task.rank, "samples": task.samples, "precision": precision}
    parts, mended = (
        bound(trained.times, setting, **fixed, confidence=delta, gamma=gamma, reading=one) for one in (reading, MENDED)
    )
    rows = pd.DataFrame(
        {
            "seed": run.seed,
            "depth": depth,
            "beta": run.beta,
            "epsilon": run.epsilon,
            "input_layer": run.input_layer,
            **fixed,
            "q": q,
            "gamma": gamma,
            "rho": setting.rho,
            "s": setting.s,
            "time": trained.times,
            "margin_risk": measured[q],
            **{name: measured[name] for name in ("train_risk", "test_risk", "weight_norm", "time_to_learn")},
            "weight_bound": parts.u,
            "upsilon": parts.upsilon,
            "deviation": parts.deviation,
            "deviation_mended": mended.deviation,
        }
    )
    rows["bound"] = rows["margin_risk"] + rows["upsilon"] + rows["deviation"]
    rows["bound_mended"] = rows["margin_risk"] + rows["upsilon"] + rows["deviation_mended"]
    rows["excess"] = rows["bound"] - rows["test_risk"]
    return rows


CURVE = ["seed", "side", "depth", "beta", "epsilon", "input_layer", "kappa", "precision"]
"""What makes a curve of a figure; its best bound is looked for over times and margins."""


def with_best(table: pd.DataFrame) -> pd.DataFrame:
    groups = table.groupby(CURVE)
    table["best_bound"] = groups["bound"].transform("min")
    table["best_bound_mended"] = groups["bound_mended"].transform("min")
    table["non_vacuous"] = table["best_bound"] < RANDOM_GUESS
    table["best"] = False
    table.loc[groups["bound"].idxmin(), "best"] = True
    return table
