"""The five ways to treat gates that Table 2 compares, as batches of runs that train together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from torch import Tensor

from tangentbench.networks.architecture import Architecture
from tangentbench.networks.gated import FROZEN, RELU, GatedNets, Gating, build, copy_features, make_dependent
from tangentbench.networks.stack import Stack
from tangentbench.studies.npk.memory import runs_together
from tangentbench.studies.registry import Context
from tangentbench.training.batches import Examples
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.loop import Trained, TrainingRecipe, TrainingRuns, train


@dataclass(frozen=True)
class GatedRun:
    """One training: its seed, its learning rate, and for frozen gates where they come from."""

    seed: int
    learning_rate: float
    column: str


LearntGates = dict[tuple[int, str], Tensor]
"""The parameters of a trained ReLU network, one row, for each (seed, column) that takes its gates from it."""
Batch = tuple[list[GatedRun], Trained]
"""Runs that trained together, and what came of them."""


@dataclass(frozen=True)
class Experiment:
    """The data, the architecture and the recipe that all modes share."""

    context: Context
    architecture: Architecture
    recipe: TrainingRecipe
    examples: Examples
    evaluate: dict[str, Examples]
    name: str
    initialisation: str = "glorot_uniform"

    def train_all(
        self, gating: Gating, runs: Sequence[GatedRun], label: str, learnt: LearntGates | None = None
    ) -> list[Batch]:
        """Train the runs in batches that fit memory.

        Columns `frnpf_ii`: features drawn independently; `frnpf_di`: equal to the values; any other column of frozen
        gates takes its features from `learnt`.
        """
        together = runs_together(self.architecture)
        batches = []
        for start in range(0, len(runs), together):
            batch = list(runs[start : start + together])
            batches.append((batch, self._train_batch(gating, batch, f"{label}-{start}", learnt or {})))
        return batches

    def _train_batch(self, gating: Gating, batch: Sequence[GatedRun], label: str, learnt: LearntGates) -> Trained:
        seeds = [run.seed for run in batch]
        learning_rates = [run.learning_rate for run in batch]
        nets = build(self.architecture, gating, seeds, self.context.seed, distribution=self.initialisation)
        if gating == FROZEN:
            self._set_features(nets, batch, learnt)
        return train(
            nets,
            self.examples,
            self.recipe,
            TrainingRuns(range(len(batch)), learning_rates, self.context.seed, order=seeds),
            label=f"{self.name}, {label}",
            evaluate=self.evaluate,
            checkpoint=checkpoint_in(self.context.work, f"{self.name}-{label}"),
        )

    def _set_features(self, nets: GatedNets, batch: Sequence[GatedRun], learnt: LearntGates) -> None:
        make_dependent(nets, [slot for slot, run in enumerate(batch) if run.column == "frnpf_di"])
        for slot, run in enumerate(batch):
            if (run.seed, run.column) in learnt:
                copy_features(nets, self._relu_stack(learnt[run.seed, run.column]), [slot])

    def _relu_stack(self, row: Tensor) -> Stack:
        """The parameters of one trained ReLU network, from its row."""
        stack = GatedNets(self.architecture, RELU, 1).parameters
        stack.load(row[None])
        return stack


def accuracy_rows(batches: Sequence[Batch]) -> pd.DataFrame:
    """One row per run: column, seed, step_size (its learning rate), epochs, and for `train` and each evaluated set the
    best and the last accuracy.

    Where a set `validation` was evaluated, `test at best validation` is the test accuracy of the epoch best on it.
    """
    rows: list[dict[str, Any]] = []
    for batch, result in batches:
        sets = [name.removesuffix("_accuracy") for name in result.history.columns if name.endswith("_accuracy")]
        tables = {name: result.accuracies(name).set_index("run") for name in sets}
        for number, run in enumerate(batch):
            row: dict[str, Any] = {"column": run.column, "seed": run.seed, "step_size": run.learning_rate}
            for name, table in tables.items():
                row |= {f"{name} best": table["best"][number], f"{name} last": table["last"][number]}
            if "validation" in tables:
                row["test at best validation"] = chosen_epoch(result.history, number, "validation", "test")
            rows.append(row | {"epochs": tables["test"]["epochs"][number]})
    return pd.DataFrame(rows)


def chosen_epoch(history: pd.DataFrame, run: int, by: str, of: str) -> float:
    """The accuracy on the set `of`, in percent, after the first epoch at which the run is best on the set `by`."""
    own = history[history["run"] == run].sort_values("epoch")
    return 100.0 * float(own[f"{of}_accuracy"].iloc[int(own[f"{by}_accuracy"].to_numpy().argmax())])
