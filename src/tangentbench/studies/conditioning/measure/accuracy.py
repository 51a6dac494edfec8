"""Figures 1, 3, 4, 5, 7 and 8: networks with several normalisations trained side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from tangentbench.datasets.choice import ImageChoice, select
from tangentbench.studies.conditioning.measure.trainings import (
    DOT_PRODUCT,
    TEST_ACCURACY,
    TRAIN_ACCURACY,
    Task,
    Training,
    epochs_to_reach,
)
from tangentbench.studies.conditioning.settings import (
    Course,
    Images,
    Shape,
    StepChoice,
    architecture,
    printed_step,
    record,
)
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
def accuracies(
    context: Context,
    *,
    networks: Sequence[str],
    normalisations: Sequence[str],
    steps: Mapping[str, Mapping[str, float]],
    shape: Mapping[str, Any],
    course: Mapping[str, Any],
    drop_epochs: Mapping[str, Sequence[int]],
    images: Mapping[str, Any],
    step_choice: Mapping[str, Any],
    runs: int,
    augmentation: bool,
    probe_absolute: bool,
    train_level: float,
) -> pd.DataFrame:
    """A row a `network` (fc_32, resnet_110), `normalisation`, `seed`, `epoch` and `quantity`.

    Quantities of an epoch: train and test accuracy in percent, train loss, mean dot product (also before training,
    epoch 0). Of a run: `last test accuracy`, `best test accuracy` (over the epochs), `last train accuracy`,
    `epochs to level` (until the train accuracy reaches `train_level` percent) and `rank correlation` of dot product and
    test accuracy over the epochs. Of the step's choice: `validation accuracy` for every step tried, `chosen` marks the
    one taken.

    A training that a table of `context.tables` holds already, with the same settings and at least as many runs, is
    taken from there.
    """
    asked = record(Images, images, "images")
    task = images_of(context, asked, record(Course, course, "course").epochs, probe_absolute)
    channels, height, width = task.training.inputs.shape[1:]
    frames = []
    for network in networks:
        for normalisation in normalisations:
            choice = record(StepChoice, step_choice, "step_choice")
            training = Training(
                architecture(
                    network,
                    normalisation,
                    record(Shape, shape, "shape"),
                    (channels, height, width),
                    len(context.dataset.classes),
                ),
                record(Course, course, "course"),
                tuple(drop_epochs.get(normalisation, ())),
                asked,
                context.dataset.name,
                choice,
                printed_step(steps, network, normalisation) if choice.how == "printed" else None,
                runs,
                augmentation,
                probe_absolute,
                context.seed,
            )
            rows = lent(context, training)
            rows = training.rows(context, task) if rows is None else rows
            frames += [rows, run_rows(rows, train_level, 100.0 / len(context.dataset.classes))]
    return pd.concat(frames, ignore_index=True).reindex(columns=COLUMNS)


def lent(context: Context, training: Training) -> pd.DataFrame | None:
    """The rows of as many runs that another artifact's table holds, without those made of them."""
    for table in context.tables.values():
        rows = table[(table["training"] == training.key) & (~table["quantity"].isin(RUN_QUANTITIES))]
        if rows["seed"].nunique() >= training.runs:
            return rows[rows["seed"].isna() | (rows["seed"] < training.runs)]
    return None


def images_of(context: Context, images: Images, epochs: int, probe_absolute: bool) -> Task:
    """The task, with images as (n, channels, height, width)."""
    choice = ImageChoice(images.train, images.test, images.side, images.pixels, subset="balanced")
    chosen = select(context.dataset, choice, context.seed)
    training, test = (
        Examples(torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2))), torch.from_numpy(y))
        for x, y in ((chosen.x_train, chosen.y_train), (chosen.x_test, chosen.y_test))
    )
    return Task(training, test, range(epochs + 1), images.probe, probe_absolute)


def run_rows(rows: pd.DataFrame, train_level: float, chance: float) -> pd.DataFrame:
    """What is said of a whole run, a row a run and quantity."""
    about = rows.iloc[0][["network", "normalisation", "training"]].to_dict()
    found = []
    for seed, own in rows.dropna(subset=["epoch"]).groupby("seed", sort=True):
        curves = own.pivot(index="epoch", columns="quantity", values="value").sort_index()
        values = of_run(curves, train_level, chance)
        step = own["step_size"].iloc[0]
        found += [
            {**about, "seed": seed, "step_size": step, "quantity": name, "value": value}
            for name, value in values.items()
        ]
    return pd.DataFrame(found)


def of_run(curves: pd.DataFrame, train_level: float, chance: float) -> dict[str, float]:
    """`curves` has a row an epoch and a column a quantity."""
    trained = curves.loc[curves.index > 0]
    train, test = trained[TRAIN_ACCURACY].to_numpy(), trained[TEST_ACCURACY].to_numpy()
    return {
        "last test accuracy": float(test[-1]),
        "best test accuracy": float(test.max()),
        "last train accuracy": float(train[-1]),
        "epochs to level": epochs_to_reach(train, train_level, chance),
        "rank correlation": rank_correlation(trained[TEST_ACCURACY], trained[DOT_PRODUCT]),
    }


def rank_correlation(one: pd.Series, other: pd.Series) -> float:
    """Spearman's; not a number where one of them never changes."""
    if min(one.nunique(), other.nunique()) < 2:
        return float("nan")
    return float(one.corr(other, method="spearman"))


RUN_QUANTITIES = (
    "last test accuracy",
    "best test accuracy",
    "last train accuracy",
    "epochs to level",
    "rank correlation",
)
