"""Table 2: test accuracy with random, learnt and decoupled gates, for three architectures and two optimisers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd
from torch import Tensor

from tangentbench.datasets import Dataset
from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.networks.architecture import Architecture, Shape, convolutional, fully_connected
from tangentbench.networks.gated import FROZEN, RELU, Gating, decoupled
from tangentbench.studies.npk.measure.images import split
from tangentbench.studies.npk.measure.modes import Laboratory, Run, accuracy_rows
from tangentbench.studies.registry import Context, study
from tangentbench.training.batches import held_out
from tangentbench.training.loop import Trained, TrainingRecipe
from tangentbench.training.optimisers import Optimiser

ROWS = tuple(
    f"{architecture}_{optimiser}" for architecture in ("fc", "vconv", "gconv") for optimiser in ("sgd", "adam")
)
FROZEN_COLUMNS = ("frnpf_ii", "frnpf_di", "flnpf")
COLUMNS = (*FROZEN_COLUMNS, "dnpfl", "relu")
PRINTED, VALIDATED = "test best", "validation best"
"""The accuracy that picks the SGD step, the epoch and the gates: on test images as printed, or on held-out ones."""
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
    validation_images: Mapping[str, int],
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

    `runs` and `epochs` are given apart for `fc` and `conv` rows, image counts for each data set. Where
    `validation_images` names a data set, its rows are trained a second time without that many training images, which
    then choose the SGD step, the epoch and the gates of FLNPF: `validated test accuracy`, chosen by no test image.
    """
    for names, known, kind in ((rows, ROWS, "row of Table 2"), (columns, COLUMNS, "column of Table 2")):
        for name in names:
            if name not in known:
                raise UnknownName(kind, name, known)
    if flnpf_checkpoint not in CHECKPOINTS:
        raise UnknownName("checkpoint for FLNPF", flnpf_checkpoint, CHECKPOINTS)
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
        family = "fc" if kind == "fc" else "conv"
        recipe = TrainingRecipe(
            epochs[family],
            batch_size,
            optimiser=Optimiser(optimiser),
            stop_at_train_accuracy=stop_at_train_accuracy,
            diverging="stop",
        )
        steps = list(sgd_steps) if optimiser == "sgd" else [adam_step_fc if kind == "fc" else adam_step_cnn]
        soft = decoupled(soft_gate_beta, soft_gate_height)
        trials = Trials(columns, steps, runs[family], soft, flnpf_checkpoint)
        laboratory = Laboratory(context, architecture, recipe, examples, {"test": test}, row, initialisation)
        frames.append(printed_protocol(trials.train(laboratory, PRINTED)).assign(row=row))
        if held := validation_images.get(name, 0):
            kept, validation = held_out(examples, held, context.seed)
            sets = {"validation": validation, "test": test}
            apart = replace(laboratory, examples=kept, evaluate=sets, name=f"{row}-validated")
            frames.append(validated_protocol(trials.train(apart, VALIDATED)).assign(row=row))
    return pd.concat(frames, ignore_index=True)


@dataclass(frozen=True)
class Trials:
    """The trainings of one row of the table."""

    columns: Sequence[str]
    steps: Sequence[float]
    runs: int
    soft: Gating
    checkpoint: str

    def of(self, *names: str) -> list[Run]:
        wanted = [name for name in names if name in self.columns]
        return [Run(seed, step, column) for column in wanted for step in self.steps for seed in range(self.runs)]

    def train(self, laboratory: Laboratory, chosen_on: str) -> pd.DataFrame:
        """`accuracy_rows` of all columns and steps: the ReLU networks first, because FLNPF takes their gates.

        Those come from the step best by `chosen_on`, and with the checkpoint `best_test` from the epoch best on the set
        that the laboratory evaluates first.
        """
        batches: list[tuple[list[Run], Trained]] = []
        learnt: dict[tuple[int, str], Tensor] = {}
        if "relu" in self.columns or "flnpf" in self.columns:
            every = [Run(seed, step, "relu") for step in self.steps for seed in range(self.runs)]
            relu = laboratory.train_all(RELU, every, "relu")
            best_step = chosen_steps(accuracy_rows(relu), chosen_on)["relu"]
            for batch, result in relu:
                rows = result.best if self.checkpoint == "best_test" else result.last
                best = [slot for slot, run in enumerate(batch) if run.step_size == best_step]
                learnt |= {(batch[slot].seed, "flnpf"): rows[slot] for slot in best}
            batches += relu
        batches += laboratory.train_all(FROZEN, self.of(*FROZEN_COLUMNS), "frozen", learnt)
        batches += laboratory.train_all(self.soft, self.of("dnpfl"), "dnpfl")
        table = accuracy_rows(batches)
        return table[table["column"].isin(self.columns)]


KEYS = ["column", "seed", "step_size"]


def at_chosen_step(table: pd.DataFrame, chosen_on: str) -> pd.DataFrame:
    return table[table["step_size"] == table["column"].map(chosen_steps(table, chosen_on))]


def printed_protocol(table: pd.DataFrame) -> pd.DataFrame:
    """Step and epoch best on the test images, with the last epoch beside it."""
    kept = at_chosen_step(table, PRINTED)
    quantities = {
        "best test accuracy": kept["test best"],
        "last test accuracy": kept["test last"],
        "train accuracy": kept["train last"],
        "epochs": kept["epochs"],
    }
    frames = [kept[KEYS].assign(quantity=name, value=values) for name, values in quantities.items()]
    frames.append(table[KEYS].assign(quantity="tried best test accuracy", value=table["test best"]))
    frames.append(advantages(kept))
    return pd.concat(frames, ignore_index=True)


def validated_protocol(table: pd.DataFrame) -> pd.DataFrame:
    """Step and epoch best on the held-out images."""
    kept = at_chosen_step(table, VALIDATED)
    return kept[KEYS].assign(quantity="validated test accuracy", value=kept["test at best validation"])


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
