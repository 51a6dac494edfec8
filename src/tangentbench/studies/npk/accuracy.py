"""Table 2: test accuracy with random, learnt and decoupled gates, for three architectures and two optimisers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import pandas as pd
from torch import Tensor

from tangentbench.datasets import Dataset
from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.models.architecture import Architecture, Shape, convolutional, fully_connected
from tangentbench.models.gated import FROZEN, RELU, Gating, decoupled
from tangentbench.registry import Context, study
from tangentbench.studies.npk.images import split
from tangentbench.studies.npk.modes import Laboratory, Run, accuracy_rows
from tangentbench.training.examples import held_out
from tangentbench.training.loop import Recipe, Trained
from tangentbench.training.optimisers import Optimiser

ROWS = tuple(
    f"{architecture}_{optimiser}" for architecture in ("fc", "vconv", "gconv") for optimiser in ("sgd", "adam")
)
FROZEN_COLUMNS = ("frnpf_ii", "frnpf_di", "flnpf")
COLUMNS = (*FROZEN_COLUMNS, "dnpfl", "relu")
CHOSEN_ON = {"test": "test best", "validation": "validation last"}
"""The accuracy that picks the SGD step: the paper's best test epoch, or the last epoch on held-out training images."""
PAIRS = (("frnpf_ii", "frnpf_di"), ("dnpfl", "frnpf"), ("flnpf", "frnpf"), ("relu", "flnpf"))
CHECKPOINTS = ("best_test", "last")


@study("npk_table2")
def accuracies(
    context: Context,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    fc_width: int,
    fc_depth: int,
    conv_kernel: int,
    conv_stride: int,
    conv_padding: Literal["same", "valid"],
    conv_channels: Sequence[int],
    dense_units: Sequence[int],
    initialisation: str,
    biases: bool,
    soft_gate_beta: float,
    soft_gate_height: float,
    batch_size: int,
    sgd_steps: Sequence[float],
    sgd_step_chosen_on: str,
    validation_images: int,
    adam_step_cnn: float,
    adam_step_fc: float,
    flnpf_checkpoint: str,
    stop_at_train_accuracy: float,
    runs: Mapping[str, int],
    epochs: Mapping[str, int],
    train_images: Mapping[str, int],
    test_images: Mapping[str, int],
) -> pd.DataFrame:
    """A row of the table a (`row`, `column`, `seed`, `quantity`), at the chosen `step_size`.

    Quantities, in percent: `best test accuracy` (the paper's protocol), `last test accuracy`, `train accuracy`; and
    `epochs` trained. `tried best test accuracy` stands for every SGD step that was tried. `advantage` is the difference
    of the best test accuracies of two columns, named "first over second"; "frnpf" is the mean of both its columns.

    `runs` and `epochs` are given apart for `fc` and `conv` rows, image counts for each data set.
    """
    for names, known, kind in ((rows, ROWS, "row of Table 2"), (columns, COLUMNS, "column of Table 2")):
        for name in names:
            if name not in known:
                raise UnknownName(kind, name, known)
    if sgd_step_chosen_on not in CHOSEN_ON:
        raise UnknownName("way to choose the SGD step", sgd_step_chosen_on, CHOSEN_ON)
    if flnpf_checkpoint not in CHECKPOINTS:
        raise UnknownName("checkpoint for FLNPF", flnpf_checkpoint, CHECKPOINTS)
    if sgd_step_chosen_on == "validation" and not validation_images:
        raise TangentbenchError(
            "npk_table2: choosing the SGD step on a validation split needs validation_images above 0"
        )
    frames = []
    for row in rows:
        kind, optimiser = row.split("_")
        dataset = of_kind(context, kind)
        architecture = architecture_of(
            kind,
            dataset,
            fc_width,
            fc_depth,
            conv_channels,
            dense_units,
            conv_kernel,
            conv_stride,
            conv_padding,
            biases,
        )
        name = dataset.name
        examples, test = split(dataset, train_images.get(name), test_images.get(name), context.seed)
        evaluate = {"test": test}
        if validation_images:
            examples, evaluate["validation"] = held_out(examples, validation_images, context.seed)
        family = "fc" if kind == "fc" else "conv"
        recipe = Recipe(
            epochs[family],
            batch_size,
            optimiser=Optimiser(optimiser),
            stop_at_train_accuracy=stop_at_train_accuracy,
            diverging="stop",
        )
        laboratory = Laboratory(context, architecture, recipe, examples, evaluate, row, initialisation)
        steps = list(sgd_steps) if optimiser == "sgd" else [adam_step_fc if kind == "fc" else adam_step_cnn]
        soft = decoupled(soft_gate_beta, soft_gate_height)
        table = one_row(laboratory, columns, steps, runs[family], soft, CHOSEN_ON[sgd_step_chosen_on], flnpf_checkpoint)
        frames.append(table.assign(row=row))
    return pd.concat(frames, ignore_index=True)


def one_row(
    laboratory: Laboratory,
    columns: Sequence[str],
    steps: Sequence[float],
    runs: int,
    soft: Gating,
    chosen_on: str,
    checkpoint: str,
) -> pd.DataFrame:
    """All columns of one row: the ReLU networks first, because FLNPF takes their gates."""

    def trials(*names: str) -> list[Run]:
        return [
            Run(seed, step, column) for column in names if column in columns for step in steps for seed in range(runs)
        ]

    batches: list[tuple[list[Run], Trained]] = []
    learnt: dict[tuple[int, str], Tensor] = {}
    if "relu" in columns or "flnpf" in columns:
        relu = laboratory.train_all(RELU, [Run(seed, step, "relu") for step in steps for seed in range(runs)], "relu")
        best_step = chosen_steps(accuracy_rows(relu), chosen_on)["relu"]
        for batch, result in relu:
            rows = result.best if checkpoint == "best_test" else result.last
            learnt |= {(run.seed, "flnpf"): rows[slot] for slot, run in enumerate(batch) if run.step_size == best_step}
        batches += relu
    batches += laboratory.train_all(FROZEN, trials(*FROZEN_COLUMNS), "frozen", learnt)
    batches += laboratory.train_all(soft, trials("dnpfl"), "dnpfl")
    table = accuracy_rows(batches)
    table = table[table["column"].isin(columns)]
    best = table["column"].map(chosen_steps(table, chosen_on))
    kept = table[table["step_size"] == best]
    quantities = {
        "best test accuracy": kept["test best"],
        "last test accuracy": kept["test last"],
        "train accuracy": kept["train last"],
        "epochs": kept["epochs"],
    }
    keys = ["column", "seed", "step_size"]
    frames = [kept[keys].assign(quantity=name, value=values) for name, values in quantities.items()]
    frames.append(table[keys].assign(quantity="tried best test accuracy", value=table["test best"]))
    frames.append(advantages(kept))
    return pd.concat(frames, ignore_index=True)


def advantages(kept: pd.DataFrame) -> pd.DataFrame:
    """Differences between columns, seed by seed, of those pairs whose columns were all trained."""
    best = kept.pivot(index="seed", columns="column", values="test best")
    if {"frnpf_ii", "frnpf_di"} <= set(best.columns):
        best["frnpf"] = best[["frnpf_ii", "frnpf_di"]].mean(axis=1)
    frames = [
        pd.DataFrame({"seed": best.index, "column": f"{first} over {second}", "value": best[first] - best[second]})
        for first, second in PAIRS
        if {first, second} <= set(best.columns)
    ]
    return pd.concat(frames, ignore_index=True).assign(quantity="advantage") if frames else pd.DataFrame()


def chosen_steps(table: pd.DataFrame, by: str) -> dict[str, float]:
    """For each column the step whose mean accuracy over runs is highest."""
    means = table.groupby(["column", "step_size"])[by].mean()
    return {str(column): float(means[column].idxmax()) for column in means.index.get_level_values(0).unique()}


def of_kind(context: Context, kind: str) -> Dataset:
    """The grey digits for fully connected networks, the colour images for convolutions."""
    channels = 1 if kind == "fc" else 3
    for dataset in context.datasets.values():
        if dataset.input_shape[-1] == channels:
            return dataset
    raise TangentbenchError(f"npk_table2: a {kind} row needs a data set of images with {channels} channel(s)")


def architecture_of(
    kind: str,
    dataset: Dataset,
    fc_width: int,
    fc_depth: int,
    channels: Sequence[int],
    dense_units: Sequence[int],
    kernel: int,
    stride: int,
    padding: Literal["same", "valid"],
    biases: bool = True,
) -> Architecture:
    shape: Shape = dataset.input_shape
    if kind == "fc":
        return fully_connected(shape, fc_width, fc_depth, len(dataset.classes), biases=biases)
    return convolutional(
        shape,
        channels,
        dense_units,
        len(dataset.classes),
        pooled=kind == "gconv",
        kernel=kernel,
        stride=stride,
        padding=padding,
        biases=biases,
    )
