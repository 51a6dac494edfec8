"""Figure 3 (left): gates copied from six stages of a ReLU network's training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
from torch import Tensor

from tangentbench.errors import UnknownName
from tangentbench.networks.gated import FROZEN, RELU
from tangentbench.studies.npk.measure.accuracy import architecture_of
from tangentbench.studies.npk.measure.images import split
from tangentbench.studies.npk.measure.modes import Laboratory, Run, accuracy_rows
from tangentbench.studies.registry import Context, study
from tangentbench.training.loop import TrainingRecipe
from tangentbench.training.optimisers import Optimiser

EXACT_COLUMNS = ("cntk_gap", "cntk_gap_2k")
"""Columns of cntk_table1 that the line of the exact kernel may come from, best first."""


@study("npk_fig3a")
def gates_of_stages(
    context: Context,
    *,
    architecture: str,
    optimiser: str,
    step: float,
    batch_size: int,
    checkpoint_epochs: Sequence[int],
    conv_kernel: int,
    conv_stride: int,
    conv_channels: Sequence[int],
    dense_units: Sequence[int],
    runs: int,
    epochs: int,
    train_images: int,
    test_images: int,
) -> pd.DataFrame:
    """`best test accuracy` and `last test accuracy` in percent, a run a `seed`, for each `network`.

    `FLNPF` has its `stage` (from 1) and `epoch`, the one its gates were taken at; `ReLU` is the network the gates come
    from, trained to the last stage; `FRNPF` has random gates equal to its initial weights (DI). `CNTK` is the exact
    kernel of cntk_table1 at its best depth, with the number of its training `images`.
    """
    if architecture not in ("gconv", "vconv"):
        raise UnknownName("architecture", architecture, ("gconv", "vconv"))
    dataset = context.dataset
    network = architecture_of(architecture, dataset, 0, 0, conv_channels, dense_units, conv_kernel, conv_stride, "same")
    examples, test = split(dataset, train_images, test_images, context.seed)
    recipe = TrainingRecipe(epochs, batch_size, optimiser=Optimiser(optimiser))
    source = replace(recipe, epochs=max(checkpoint_epochs), snapshot_epochs=tuple(checkpoint_epochs))
    laboratory = Laboratory(context, network, recipe, examples, {"test": test}, architecture)
    relu = replace(laboratory, recipe=source).train_all(RELU, [Run(seed, step, "ReLU") for seed in range(runs)], "relu")
    learnt: dict[tuple[int, str], Tensor] = {}
    for batch, result in relu:
        for epoch, rows in result.snapshots.items():
            learnt |= {(run.seed, f"epoch {epoch}"): rows[slot] for slot, run in enumerate(batch)}
    columns = ["frnpf_di", *(f"epoch {epoch}" for epoch in checkpoint_epochs)]
    frozen = laboratory.train_all(
        FROZEN, [Run(seed, step, column) for column in columns for seed in range(runs)], "frozen", learnt
    )
    table = accuracy_rows([*relu, *frozen])
    epoch_of = {f"epoch {epoch}": epoch for epoch in checkpoint_epochs}
    stage_of = {column: stage for stage, column in enumerate(epoch_of, start=1)}
    named = table.assign(
        network=table["column"].map(lambda column: {"ReLU": "ReLU", "frnpf_di": "FRNPF"}.get(column, "FLNPF")),
        stage=table["column"].map(stage_of),
        epoch=table["column"].map(epoch_of),
    )
    keys = ["network", "stage", "epoch", "seed"]
    frames = [
        named[keys].assign(quantity=f"{which} test accuracy", value=named[f"test {which}"])
        for which in ("best", "last")
    ]
    exact = exact_kernel(context.tables["cntk_table1"])
    frames += [exact.assign(quantity=f"{which} test accuracy") for which in ("best", "last")]
    return pd.concat(frames, ignore_index=True).astype({"stage": "Int64", "epoch": "Int64", "images": "Int64"})


def exact_kernel(table: pd.DataFrame) -> pd.DataFrame:
    """A row a subset of the best depth of CNTK-GAP in the table of cntk_table1; empty where it has none."""
    for column in EXACT_COLUMNS:
        found = table[table["column"] == column]
        if len(found):
            best = found[found["depth"] == found.groupby("depth")["value"].mean().idxmax()]
            return best[["seed", "value"]].assign(network="CNTK", images=best["train_images"])
    return pd.DataFrame(columns=["seed", "value", "network", "images"])
