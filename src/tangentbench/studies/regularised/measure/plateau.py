"""Figure 5.2: the penalised loss against the width of the hidden layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from tangentbench.datasets import Dataset
from tangentbench.datasets.selection import some_of_each
from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.networks.penalised import Member, PenalisedNets, draw, with_bias
from tangentbench.networks.stack import on_device
from tangentbench.studies.registry import Context, study
from tangentbench.theory.clusters import plateau_start
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.engines.full_batch import Stage, train_in_stages

RECORDS = 50
LAST_RECORDS = 5
"""The loss's fall over the last tenth of training is reported beside it."""
LOSS_OF = {"mnist": "cross_entropy", "teacher": "squared_norm"}


@dataclass(frozen=True, eq=False)
class Panel:
    """What the networks of a panel learn: inputs (N, d) and classes (N,) or targets (N, k), of k outputs."""

    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    outputs: int


@study("regularised_fig5_2")
def loss_against_width(
    context: Context,
    *,
    panels: Sequence[str],
    images: Mapping[str, int],
    hidden_layers: int,
    widths: Sequence[int],
    penalties: Mapping[str, Sequence[float]],
    trials: Mapping[str, int],
    adam_step: float,
    adam_steps: Mapping[str, int],
    descent_step: float,
    descent_steps: Mapping[str, int],
    bias_amount: float,
    plateau_tolerance: float,
    other_tolerances: Sequence[float],
) -> pd.DataFrame:
    """A row a trained network with its final `train_loss` (penalised), `test_loss` (not), `chosen` where it is the best
    trial of its `panel`, `penalty` and `width`, and `fall`, the train loss's relative fall in the last tenth of steps.

    Rows with a `tolerance` hold in `start` the plateau's start so measured, in `start_of_the_drop` the start where the
    tolerance is a share of the curve's whole drop, and in `falls` the rank correlation of width and loss up to `start`.
    """
    frames = []
    for name in panels:
        if name not in LOSS_OF:
            raise UnknownName("panel", name, LOSS_OF)
        panel = panel_of(context, name, images[name])
        members = [
            Member(width, float(penalty), trial)
            for width in widths
            for penalty in penalties[name]
            for trial in range(trials[name])
        ]
        inside = panel.x_train.shape[1]
        starts = [
            draw(
                [inside, *[one.width] * hidden_layers, panel.outputs], torch.float32, context.seed, one.width, one.trial
            )
            for one in members
        ]
        nets = PenalisedNets(
            members,
            starts,
            with_bias(panel.x_train, bias_amount),
            panel.y_train,
            bias=bias_amount,
            loss=LOSS_OF[name],
        )
        stages = [Stage("adam", adam_step, adam_steps[name]), Stage("descent", descent_step, descent_steps[name])]
        identity = (context.seed, members, stages, images[name], hidden_layers, bias_amount)
        history = train_in_stages(
            nets,
            stages,
            label=f"{name}, {len(members)} networks",
            records=RECORDS,
            checkpoint=checkpoint_in(context.work, name, *identity),
        )
        table = final_losses(nets, history, panel, bias_amount)
        frames += [table, starts_of_plateau(table, [plateau_tolerance, *other_tolerances])]
        frames[-2:] = [frame.assign(panel=name) for frame in frames[-2:]]
    return pd.concat(frames, ignore_index=True)


def panel_of(context: Context, name: str, count: int) -> Panel:
    """The digits (classes, images) or the teacher's data (targets, vectors), whichever the panel needs."""
    for dataset in context.datasets.values():
        if bool(dataset.classes) == (name == "mnist"):
            return some_examples(dataset, count, context.seed)
    raise TangentbenchError(
        f"regularised_fig5_2: the panel {name} needs a data set {'with' if name == 'mnist' else 'without'} classes"
    )


def some_examples(dataset: Dataset, count: int, seed: int) -> Panel:
    """`count` training examples, equally many of each class where there are classes, and all test examples."""
    if dataset.classes:
        each = count // len(dataset.classes)
        generator = np.random.default_rng(seed)
        places = some_of_each(dataset.y_train, len(dataset.classes), each, generator, "training")
    else:
        places = np.arange(len(dataset.x_train))[:count]
    if len(places) != count:
        raise TangentbenchError(f"{dataset.name}: {count} training examples asked for, {len(places)} can be had")
    outputs = len(dataset.classes) or dataset.y_train.shape[1]
    arrays = (dataset.x_train[places], dataset.y_train[places], dataset.x_test, dataset.y_test)
    x_train, y_train, x_test, y_test = (torch.from_numpy(array) for array in arrays)
    return Panel(x_train.flatten(1), y_train, x_test.flatten(1), y_test, outputs)


def final_losses(nets: PenalisedNets, history: pd.DataFrame, panel: Panel, bias: float) -> pd.DataFrame:
    losses = history.pivot(index="place", columns="step", values="loss").sort_index()
    with torch.no_grad(), on_device(nets) as place:
        test = nets.costs(with_bias(panel.x_test, bias).to(place), panel.y_test.to(place)).cpu()
    table = pd.DataFrame(
        {
            "width": [member.width for member in nets.members],
            "penalty": [member.penalty for member in nets.members],
            "trial": [member.trial for member in nets.members],
            "train_loss": losses.iloc[:, -1].to_numpy(),
            "test_loss": test.double().numpy(),
            "fall": (losses.iloc[:, -1 - LAST_RECORDS] / losses.iloc[:, -1] - 1).to_numpy(),
        }
    )
    best = table.groupby(["penalty", "width"])["train_loss"].transform("min")
    return table.assign(chosen=table["train_loss"] == best)


def starts_of_plateau(table: pd.DataFrame, tolerances: Sequence[float]) -> pd.DataFrame:
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
