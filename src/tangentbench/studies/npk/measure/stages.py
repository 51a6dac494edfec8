"""Figure 3 (left): gates copied from six stages of a ReLU network's training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from tangentbench.networks.gated import FROZEN, RELU
from tangentbench.studies.npk.measure.digits import recipe_of
from tangentbench.studies.npk.measure.images import split
from tangentbench.studies.npk.measure.modes import Batch, Experiment, GatedRun, LearntGates, accuracy_rows
from tangentbench.studies.npk.settings import Stages
from tangentbench.studies.registry import Context, study

_EXACT_COLUMNS = ("cntk_gap", "cntk_gap_2k")
"""Columns of cntk_table1 that the line of the exact kernel may come from, best first."""


@study("npk_fig3a")
def gates_of_stages(context: Context, settings: Stages) -> pd.DataFrame:
    """`best test accuracy` and `last test accuracy` in percent for each `network`; every run has its `seed`.

    `FLNPF` has its `stage` (from 1) and `epoch`, the one its gates were taken at; `ReLU` is the network the gates come
    from, trained to the last stage; `FRNPF` has random gates equal to its initial weights (DI). `CNTK` is the exact
    kernel of cntk_table1 at its best depth, with the number of its training `images`.
    """
    experiment = _experiment(context, settings)
    relu = _train_relu(experiment, settings)
    columns = ["frnpf_di", *(_column(epoch) for epoch in settings.checkpoint_epochs)]
    frozen = experiment.train_all(FROZEN, _runs(settings, columns), "frozen", _learnt_gates(relu))
    trained = _named(accuracy_rows([*relu, *frozen]), settings.checkpoint_epochs)
    exact = exact_kernel(context.tables["cntk_table1"])
    keys = ["network", "stage", "epoch", "seed"]
    best_and_last = ("best", "last")
    frames = [
        trained[keys].assign(quantity=f"{which} test accuracy", value=trained[f"test {which}"])
        for which in best_and_last
    ]
    frames += [exact.assign(quantity=f"{which} test accuracy") for which in best_and_last]
    return pd.concat(frames, ignore_index=True).astype({"stage": "Int64", "epoch": "Int64", "images": "Int64"})


def _experiment(context: Context, settings: Stages) -> Experiment:
    dataset = context.dataset
    architecture = settings.built(dataset.input_shape, len(dataset.classes))
    examples, test = split(dataset, settings.train_images, settings.test_images, context.seed)
    recipe = recipe_of(settings.training)
    return Experiment(context, architecture, recipe, examples, {"test": test}, settings.architecture)


def _train_relu(experiment: Experiment, settings: Stages) -> list[Batch]:
    """The networks the gates are copied from, kept at every stage."""
    stages = settings.checkpoint_epochs
    recipe = replace(experiment.recipe, epochs=max(stages), snapshot_epochs=stages)
    return replace(experiment, recipe=recipe).train_all(RELU, _runs(settings, ["ReLU"]), "relu")


def _runs(settings: Stages, columns: Sequence[str]) -> list[GatedRun]:
    training = settings.training
    return [GatedRun(seed, training.learning_rate, column) for column in columns for seed in range(training.runs)]


def _learnt_gates(relu: Sequence[Batch]) -> LearntGates:
    return {
        (run.seed, _column(epoch)): rows[slot]
        for batch, result in relu
        for epoch, rows in result.snapshots.items()
        for slot, run in enumerate(batch)
    }


def _column(epoch: int) -> str:
    return f"epoch {epoch}"


def _named(table: pd.DataFrame, stages: Sequence[int]) -> pd.DataFrame:
    """The accuracies with each run's network and, for copied gates, its stage and epoch."""
    epoch_of = {_column(epoch): epoch for epoch in stages}
    stage_of = {column: stage for stage, column in enumerate(epoch_of, start=1)}
    networks = {"ReLU": "ReLU", "frnpf_di": "FRNPF"}
    return table.assign(
        network=table["column"].map(lambda column: networks.get(column, "FLNPF")),
        stage=table["column"].map(stage_of),
        epoch=table["column"].map(epoch_of),
    )


def exact_kernel(table: pd.DataFrame) -> pd.DataFrame:
    """One row per subset of the best depth of CNTK-GAP in the table of cntk_table1; empty where it has none."""
    for column in _EXACT_COLUMNS:
        found = table[table["column"] == column]
        if len(found):
            best = found[found["depth"] == found.groupby("depth")["value"].mean().idxmax()]
            return best[["seed", "value"]].assign(network="CNTK", images=best["train_images"])
    return pd.DataFrame(columns=["seed", "value", "network", "images"])
