"""Figure 6.7: assumption 6.5.1, that the loss projected on the data never exceeds its start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tangentbench.studies.bounds.measure.runs import grid, horizon, task_with_side, time_grid, train
from tangentbench.studies.registry import Context, study


@study("bounds_fig6_7")
def projected_loss(
    context: Context,
    *,
    samples: int,
    sides: Sequence[int],
    betas: Sequence[float],
    epsilons: Sequence[float],
    depths: Sequence[int],
    input_layers: Sequence[str],
    shown_offset: float,
    time_in_learning_times: float,
    learnt_fraction: float,
    first_time_share: float,
    time_points: int,
    runs: int,
    network: Mapping[str, Any],
    solver: str,
) -> pd.DataFrame:
    """One row a run and time: `loss` = |Y - f|^2 / 2m, `projected_loss` = |(Y - f) X~^T|^2 / 2m^2, and how far both
    have fallen since the start; `projected_rise` above its own smallest value so far. `shown_offset` is the picture's.
    """
    (side,), (depth,) = sides, depths
    task = task_with_side(context, side, samples)
    wanted = grid(betas, epsilons, input_layers, runs)
    end = horizon(wanted, task, depth, time_in_learning_times, learnt_fraction)
    times = time_grid(end, time_points, first_time_share)
    trained = train(context, task, wanted, times, depth=depth, network=network, solver=solver)
    x, y = task.x_train.numpy().astype(np.float64), task.y_train.numpy().astype(np.float64)
    frames = []
    for position, run in enumerate(wanted):
        residual = y - trained.outputs(position, task.x_train)
        loss = 0.5 * np.mean(residual**2, axis=1)
        projected = 0.5 * np.sum((residual @ x / len(y)) ** 2, axis=1)
        frames.append(
            pd.DataFrame(
                {
                    "seed": run.seed,
                    "beta": run.beta,
                    "epsilon": run.epsilon,
                    "time": times,
                    "loss": loss,
                    "projected_loss": projected,
                    "loss_fall": loss[0] - loss,
                    "projected_fall": projected[0] - projected,
                    "projected_rise": projected - np.minimum.accumulate(projected),
                    "shown_offset": shown_offset,
                }
            )
        )
    return pd.concat(frames, ignore_index=True)
