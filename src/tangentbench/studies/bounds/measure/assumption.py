"""Figure 6.7: assumption 6.5.1, that the loss projected on the data never exceeds its start."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tangentbench.studies.bounds.measure.runs import Family, TrainedRuns, task_with_side, train
from tangentbench.studies.bounds.settings import Assumption
from tangentbench.studies.registry import Context, study


@study("bounds_fig6_7")
def projected_loss(context: Context, settings: Assumption) -> pd.DataFrame:
    """One row per run and time: `loss` = |Y - f|^2 / 2m, `projected_loss` = |(Y - f) X~^T|^2 / 2m^2, and how far both
    have fallen since the start; `projected_rise` above its own smallest value so far. `shown_offset` is the picture's.
    """
    task = task_with_side(context, settings.side, settings.samples)
    family = Family.of(settings, task, settings.depth, context.seed)
    trained = train(context, family, settings.solver)
    frames = [_run_rows(trained, position) for position in range(len(family.runs))]
    return pd.concat(frames, ignore_index=True).assign(shown_offset=settings.shown_offset)


def _run_rows(trained: TrainedRuns, position: int) -> pd.DataFrame:
    family = trained.family
    x = family.task.x_train.numpy().astype(np.float64)
    y = family.task.y_train.numpy().astype(np.float64)
    residual = y - trained.outputs(position, family.task.x_train)
    loss = 0.5 * np.mean(residual**2, axis=1)
    projected = 0.5 * np.sum((residual @ x / len(y)) ** 2, axis=1)
    run = family.runs[position]
    return pd.DataFrame(
        {
            "seed": run.seed,
            "beta": run.beta,
            "epsilon": run.epsilon,
            "time": family.times,
            "loss": loss,
            "projected_loss": projected,
            "loss_fall": loss[0] - loss,
            "projected_fall": projected[0] - projected,
            "projected_rise": projected - np.minimum.accumulate(projected),
        }
    )
