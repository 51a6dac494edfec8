"""Figures 6.1 to 6.6: the bound of theorem 6.5.2 during training, beside the risks it bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from tangentbench.studies.bounds.measure.runs import Array, Family, TrainedRuns, task_with_side, train
from tangentbench.studies.bounds.settings import Curves
from tangentbench.studies.registry import Context, study
from tangentbench.theory.nearly_linear import (
    MENDED,
    Proxy,
    Reading,
    Setting,
    bound,
    margin_risk,
    misclassification_risk,
)

_RANDOM_GUESS = 0.5
_SETTLED = 1.1
"""A run has learnt when its train risk is at most this many times its risk at the end."""
_CURVE = ["seed", "side", "depth", "beta", "epsilon", "input_layer", "kappa", "precision"]
"""What makes a curve of a figure; its best bound is the smallest over times and margins."""


@dataclass(frozen=True)
class _Choice:
    """Order of the proxy model, bits of a weight, and q of the margin beta^L / q."""

    kappa: int
    precision: int
    q: float


@study("bounds_fig6_1")
@study("bounds_fig6_2")
@study("bounds_fig6_3")
@study("bounds_fig6_4")
@study("bounds_fig6_5")
@study("bounds_fig6_6")
def bound_curves(context: Context, settings: Curves) -> pd.DataFrame:
    """One row per run, kappa, precision, q and time.

    Columns besides the settings: `gamma` = beta^L/q; the measured `margin_risk` (train, at gamma), `train_risk`,
    `test_risk`, `weight_norm` (of the largest layer); the theorem's `weight_bound` u, `upsilon`, `deviation` =
    Delta eps^kappa/gamma, `bound` = margin_risk + upsilon + deviation, and the last two with the factor rho that the
    proof loses (`_mended`); `excess` = bound - test_risk; `best_bound`, the smallest over times and qs, with `best` on
    its row and `non_vacuous` where it is below 0.5; `time_to_learn`.
    """
    frames = []
    for side, depth in settings.cases:
        task = task_with_side(context, side, settings.samples)
        family = Family.of(settings, task, depth, context.seed)
        trained = train(context, family, settings.solver)
        learning_time = family.times[-1] / settings.times.end_in_learning_times
        for position in range(len(family.runs)):
            rows = _run_rows(trained, position, settings)
            frames.append(rows.assign(side=side, learning_time=learning_time))
    return _with_best(pd.concat(frames, ignore_index=True))


def _run_rows(trained: TrainedRuns, position: int, settings: Curves) -> pd.DataFrame:
    measured = _measured(trained, position, settings.qs)
    choices = product(settings.kappas, settings.precisions, settings.qs)
    return pd.concat([_curve(trained, position, measured, _Choice(*choice), settings) for choice in choices])


def _measured(trained: TrainedRuns, position: int, qs: Sequence[float]) -> dict[Any, Array]:
    """Risks and weights of a run at all times, each (K,); the margin risks have their q as key."""
    family = trained.family
    y_train, y_test = family.task.y_train.numpy(), family.task.y_test.numpy()
    on_train = trained.outputs(position, family.task.x_train)
    layers = family.shape.split(trained.weights[:, position])
    scale = family.runs[position].beta ** family.shape.depth
    train_risk = misclassification_risk(y_train, on_train)
    return {
        "train_risk": train_risk,
        "test_risk": misclassification_risk(y_test, trained.outputs(position, family.task.x_test)),
        "weight_norm": np.max([np.linalg.norm(layer, 2, axis=(1, 2)) for layer in layers], axis=0),
        "time_to_learn": np.full(len(family.times), first_time_below(family.times, train_risk)),
        **{q: margin_risk(y_train, on_train, scale / q) for q in qs},
    }


def first_time_below(times: Array, risk: Array) -> float:
    """When the risk has first come near its end, between two times by linear interpolation."""
    level = _SETTLED * risk[-1]
    first = int(np.argmax(risk <= level))
    if first == 0:
        return float(times[0])
    share = (risk[first - 1] - level) / (risk[first - 1] - risk[first])
    return float(times[first - 1] + share * (times[first] - times[first - 1]))


def _curve(
    trained: TrainedRuns, position: int, measured: Mapping[Any, Array], choice: _Choice, settings: Curves
) -> pd.DataFrame:
    family = trained.family
    run, depth, task = family.runs[position], family.shape.depth, family.task
    setting = Setting(depth, run.epsilon, run.beta, family.rho(position), task.s)
    gamma = run.beta**depth / choice.q
    reading = Reading(**msgspec.structs.asdict(settings.theorem))
    parts, mended = (
        bound(
            family.times,
            setting,
            Proxy(choice.kappa, task.rank, choice.precision),
            samples=task.samples,
            failure_probability=settings.failure_probability,
            gamma=gamma,
            reading=one,
        )
        for one in (reading, MENDED)
    )
    rows = pd.DataFrame(
        {
            "seed": run.seed,
            "depth": depth,
            "beta": run.beta,
            "epsilon": run.epsilon,
            "input_layer": run.input_layer,
            "kappa": choice.kappa,
            "dimension": task.rank,
            "samples": task.samples,
            "precision": choice.precision,
            "q": choice.q,
            "gamma": gamma,
            "rho": setting.rho,
            "s": setting.s,
            "time": family.times,
            "margin_risk": measured[choice.q],
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


def _with_best(table: pd.DataFrame) -> pd.DataFrame:
    groups = table.groupby(_CURVE)
    table["best_bound"] = groups["bound"].transform("min")
    table["best_bound_mended"] = groups["bound_mended"].transform("min")
    table["non_vacuous"] = table["best_bound"] < _RANDOM_GUESS
    table["best"] = False
    table.loc[groups["bound"].idxmin(), "best"] = True
    return table
