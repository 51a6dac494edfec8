"""Figures 1, 3, 4, 5, 7 and 8: the same networks trained with several normalisations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from tangentbench.datasets.choice import ImageChoice, select
from tangentbench.studies.conditioning.measure.histories import RUN_QUANTITIES, run_rows
from tangentbench.studies.conditioning.measure.trainings import Task, Training
from tangentbench.studies.conditioning.settings import Trainings
from tangentbench.studies.registry import Context, study
from tangentbench.training.batches import Examples

COLUMNS = [
    "network",
    "normalisation",
    "training",
    "step_size",
    "seed",
    "epoch",
    "quantity",
    "value",
    "chosen",
]


@study("conditioning_fig1")
@study("conditioning_fig3")
@study("conditioning_fig4")
@study("conditioning_fig5")
@study("conditioning_fig7")
@study("conditioning_fig8")
def accuracies(context: Context, settings: Trainings) -> pd.DataFrame:
    """One row per `network` (fc_32, resnet_110), `normalisation`, `seed`, `epoch` and `quantity`.

    Quantities of an epoch: train and test accuracy in percent, train loss, mean dot product (also before training,
    epoch 0). Of a run: `last test accuracy`, `best test accuracy` (over the epochs), `last train accuracy`,
    `epochs to level` (until the train accuracy reaches `train_level` percent) and `rank correlation` of dot product and
    test accuracy over the epochs. Of the choice of the learning rate (`step_size`): `validation accuracy` of every
    candidate; `chosen` marks the one taken.

    A training that a table of `context.tables` holds already, with the same settings and at least as many runs, is
    taken from there.
    """
    task = _task(context, settings)
    channels, height, width = task.training.inputs.shape[1:]
    classes = len(context.dataset.classes)
    frames = []
    for network in settings.networks:
        for normalisation in settings.normalisations:
            own = settings.training(network, normalisation, (channels, height, width), classes)
            training = Training(own, context.dataset.name, settings.runs, context.seed)
            rows = _rows_of_another_artifact(context, training)
            rows = training.rows(context, task) if rows is None else rows
            frames += [rows, run_rows(rows, settings.train_level, 100.0 / classes)]
    return pd.concat(frames, ignore_index=True).reindex(columns=COLUMNS)


def _rows_of_another_artifact(context: Context, training: Training) -> pd.DataFrame | None:
    """The rows of this training in another artifact's table, without the summaries of its runs; None if it has none."""
    for table in context.tables.values():
        rows = table[(table["training"] == training.key) & (~table["quantity"].isin(RUN_QUANTITIES))]
        if rows["seed"].nunique() >= training.runs:
            return rows[rows["seed"].isna() | (rows["seed"] < training.runs)]
    return None


def _task(context: Context, settings: Trainings) -> Task:
    """The task, with images as (n, channels, height, width)."""
    images = settings.images
    choice = ImageChoice(images.train, images.test, images.side, images.pixels, subset="balanced")
    chosen = select(context.dataset, choice, context.seed)
    training, test = (
        Examples(torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2))), torch.from_numpy(y))
        for x, y in ((chosen.x_train, chosen.y_train), (chosen.x_test, chosen.y_test))
    )
    return Task(training, test, range(settings.schedule.epochs + 1), images.probe, settings.probe_absolute)
