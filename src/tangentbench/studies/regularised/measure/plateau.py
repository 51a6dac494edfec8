"""Figure 5.2: the penalised loss against the width of the hidden layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from tangentbench.datasets import Dataset
from tangentbench.datasets.selection import some_of_each
from tangentbench.errors import TangentbenchError
from tangentbench.networks.mlp_shape import MlpShape
from tangentbench.networks.penalised import Member, PenalisedNets, draw, with_bias
from tangentbench.networks.stack import on_device
from tangentbench.studies.registry import Context, study
from tangentbench.studies.regularised.settings import Plateau
from tangentbench.theory.clusters import plateau_start
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.engines.full_batch import Stage, train_in_stages

_RECORDS = 50
_LAST_RECORDS = 5
"""The loss's fall over the last tenth of training is reported beside it."""
_LOSS_OF = {"mnist": "cross_entropy", "teacher": "squared_norm"}


@dataclass(frozen=True, eq=False)
class Panel:
    """What the networks of a panel learn: inputs (N, d) and classes (N,) or targets (N, k), of k outputs."""

    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    outputs: int


@study("regularised_fig5_2")
def loss_against_width(context: Context, settings: Plateau) -> pd.DataFrame:
    """One row per trained network with its final `train_loss` (penalised), `test_loss` (not), `chosen` where it is the
    best trial of its `panel`, `penalty` and `width`, and `fall`, the train loss's relative fall in the last tenth.

    Rows with a `tolerance` hold in `start` the plateau's start so measured, in `start_of_the_drop` the start where the
    tolerance is a share of the curve's whole drop, and in `falls` the rank correlation of width and loss up to `start`.
    """
    frames = []
    for name in settings.panels:
        table = _trained_panel(context, settings, name)
        starts = _starts_of_plateau(table, [settings.plateau_tolerance, *settings.other_tolerances])
        frames += [frame.assign(panel=name) for frame in (table, starts)]
    return pd.concat(frames, ignore_index=True)


def _trained_panel(context: Context, settings: Plateau, name: str) -> pd.DataFrame:
    """Train all networks of a panel as one family; one row per network."""
    own = settings.panel(name)
    panel = _panel_of(context, name, own.images)
    members = [
        Member(width, penalty, trial)
        for width in settings.widths
        for penalty in own.penalties
        for trial in range(own.trials)
    ]
    starts = [_start(settings, panel, one, context.seed) for one in members]
    inputs = with_bias(panel.x_train, settings.bias)
    nets = PenalisedNets(members, starts, inputs, panel.y_train, bias=settings.bias, loss=_LOSS_OF[name])
    history = train_in_stages(
        nets,
        [
            Stage("adam", settings.adam_learning_rate, own.adam_steps),
            Stage("descent", settings.descent_learning_rate, own.descent_steps),
        ],
        label=f"{name}, {len(members)} networks",
        records=_RECORDS,
        checkpoint=checkpoint_in(context.work, name),
    )
    return final_losses(nets, history, panel, settings.bias)


def _start(settings: Plateau, panel: Panel, member: Member, seed: int) -> list[Tensor]:
    shape = MlpShape(settings.hidden_layers + 1, member.width, panel.x_train.shape[1], panel.outputs)
    return draw(shape, torch.float32, seed, member.width, member.trial)


def _panel_of(context: Context, name: str, count: int) -> Panel:
    """The digits (classes, images) or the teacher's data (targets, vectors), whichever the panel needs."""
    for dataset in context.datasets.values():
        if bool(dataset.classes) == (name == "mnist"):
            return _some_examples(dataset, count, context.seed)
    raise TangentbenchError(
        f"regularised_fig5_2: the panel {name} needs a data set {'with' if name == 'mnist' else 'without'} classes"
    )


def _some_examples(dataset: Dataset, count: int, seed: int) -> Panel:
    """`count` training examples, equally many of each class where there are classes, and all test examples."""
    if dataset.classes:
        each = count // len(dataset.classes)
        generator = np.random.default_rng(seed)
        chosen = some_of_each(dataset.y_train, len(dataset.classes), each, generator, "training")
    else:
        chosen = np.arange(len(dataset.x_train))[:count]
    if len(chosen) != count:
        raise TangentbenchError(
            f"{dataset.name}: {count} training examples are wanted but only {len(chosen)} can be had: "
            "lower the setting `images`"
        )
    outputs = len(dataset.classes) or dataset.y_train.shape[1]
    arrays = (dataset.x_train[chosen], dataset.y_train[chosen], dataset.x_test, dataset.y_test)
    x_train, y_train, x_test, y_test = (torch.from_numpy(array) for array in arrays)
    return Panel(x_train.flatten(1), y_train, x_test.flatten(1), y_test, outputs)


def final_losses(nets: PenalisedNets, history: pd.DataFrame, panel: Panel, bias: float) -> pd.DataFrame:
    losses = history.pivot(index="place", columns="step", values="loss").sort_index()
    with torch.no_grad(), on_device(nets) as device:
        test = nets.costs(with_bias(panel.x_test, bias).to(device), panel.y_test.to(device)).cpu()
    table = pd.DataFrame(
        {
            "width": [member.width for member in nets.members],
            "penalty": [member.penalty for member in nets.members],
            "trial": [member.trial for member in nets.members],
            "train_loss": losses.iloc[:, -1].to_numpy(),
            "test_loss": test.double().numpy(),
            "fall": (losses.iloc[:, -1 - _LAST_RECORDS] / losses.iloc[:, -1] - 1).to_numpy(),
        }
    )
    best = table.groupby(["penalty", "width"])["train_loss"].transform("min")
    return table.assign(chosen=table["train_loss"] == best)


def _starts_of_plateau(table: pd.DataFrame, tolerances: Sequence[float]) -> pd.DataFrame:
    rows = []
    for penalty, curve in table[table["chosen"]].groupby("penalty"):
        curve = curve.sort_values("width")
        for tolerance in tolerances:
            widths, losses = curve["width"].tolist(), curve["train_loss"].tolist()
            start = plateau_start(widths, losses, tolerance)
            seen = plateau_start(widths, losses, tolerance, of_the_drop=True)
            before = curve[curve["width"] <= start]
            falls = before["width"].corr(before["train_loss"], method="spearman") if len(before) > 1 else np.nan
            rows.append(
                {"penalty": penalty, "tolerance": tolerance, "start": start, "start_of_the_drop": seen, "falls": falls}
            )
    return pd.DataFrame(rows)
