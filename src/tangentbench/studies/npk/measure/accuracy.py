"""Table 2: test accuracy with random, learnt and decoupled gates, for three architectures and two optimisers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from tangentbench.datasets import Dataset
from tangentbench.errors import TangentbenchError
from tangentbench.networks.gated import FROZEN, RELU, Gating, decoupled
from tangentbench.studies.npk.measure.images import split
from tangentbench.studies.npk.measure.modes import Batch, Experiment, GatedRun, LearntGates, accuracy_rows
from tangentbench.studies.npk.settings import GateTable, Row
from tangentbench.studies.registry import Context, study
from tangentbench.training.batches import held_out
from tangentbench.training.loop import TrainingRecipe
from tangentbench.training.optimisers import Optimiser

_FROZEN_COLUMNS = ("frnpf_ii", "frnpf_di", "flnpf")
_PRINTED, _VALIDATED = "test best", "validation best"
"""The accuracy that selects the SGD learning rate, the epoch and the gates: on test images as printed, or on held-out
ones."""
_PAIRS = (("frnpf_ii", "frnpf_di"), ("dnpfl", "frnpf"), ("flnpf", "frnpf"), ("relu", "flnpf"))
_KEYS = ["column", "seed", "step_size"]


@study("npk_table2")
def accuracies(context: Context, settings: GateTable) -> pd.DataFrame:
    """One row per (`row`, `column`, `seed`, `quantity`), at the selected learning rate `step_size`.

    Quantities, in percent: `best test accuracy` (the paper's protocol), `last test accuracy`, `train accuracy`; and
    `epochs` trained. `tried best test accuracy` is given for every SGD learning rate tried. `advantage` is the
    difference of the best test accuracies of two columns, named "first over second"; "frnpf" is the mean of both its
    columns.

    A family of rows with `validation_images` is trained a second time without that many training images, which then
    select the SGD learning rate, the epoch and the gates of FLNPF: `validated test accuracy`, in which no test image
    had a say.
    """
    frames = [frame for row in settings.rows for frame in _row_frames(context, settings, row)]
    return pd.concat(frames, ignore_index=True)


def _row_frames(context: Context, settings: GateTable, row: Row) -> list[pd.DataFrame]:
    """The printed protocol of one row and, where images are held out, the validated one."""
    family = settings.family(row)
    experiment = _experiment(context, settings, row)
    trials = Trials(
        columns=settings.columns,
        learning_rates=settings.learning_rates(row),
        runs=family.runs,
        soft=decoupled(settings.soft_gate.beta, settings.soft_gate.height),
        checkpoint=settings.flnpf_checkpoint,
    )
    frames = [_printed_protocol(trials.train(experiment, _PRINTED))]
    if family.validation_images:
        kept, validation = held_out(experiment.examples, family.validation_images, context.seed)
        sets = {"validation": validation, **experiment.evaluate}
        validated = replace(experiment, examples=kept, evaluate=sets, name=f"{row}-validated")
        frames.append(_validated_protocol(trials.train(validated, _VALIDATED)))
    return [frame.assign(row=row) for frame in frames]


def _experiment(context: Context, settings: GateTable, row: Row) -> Experiment:
    family = settings.family(row)
    dataset = _dataset_of(context, row)
    examples, test = split(dataset, family.train_images, family.test_images, context.seed)
    recipe = TrainingRecipe(
        family.epochs,
        settings.batch_size,
        optimiser=Optimiser(settings.optimiser(row)),
        stop_at_train_accuracy=settings.stop_at_train_accuracy,
        diverging="stop",
    )
    architecture = settings.architecture(row, dataset.input_shape, len(dataset.classes))
    return Experiment(context, architecture, recipe, examples, {"test": test}, row, settings.initialisation)


@dataclass(frozen=True)
class Trials:
    """The trainings of one row of the table."""

    columns: Sequence[str]
    learning_rates: Sequence[float]
    runs: int
    soft: Gating
    checkpoint: str

    def train(self, experiment: Experiment, chosen_on: str) -> pd.DataFrame:
        """`accuracy_rows` of all columns and learning rates: the ReLU networks first, because FLNPF takes their gates.

        Those come from the learning rate best by `chosen_on`, and with the checkpoint `best_test` from the epoch best
        on the set that the experiment evaluates first.
        """
        batches: list[Batch] = []
        learnt: LearntGates = {}
        if "relu" in self.columns or "flnpf" in self.columns:
            batches = experiment.train_all(RELU, self._runs_of("relu"), "relu")
            learnt = self._learnt_gates(batches, chosen_on)
        frozen = self._runs_of(*(name for name in _FROZEN_COLUMNS if name in self.columns))
        batches += experiment.train_all(FROZEN, frozen, "frozen", learnt)
        if "dnpfl" in self.columns:
            batches += experiment.train_all(self.soft, self._runs_of("dnpfl"), "dnpfl")
        table = accuracy_rows(batches)
        return table[table["column"].isin(self.columns)]

    def _runs_of(self, *columns: str) -> list[GatedRun]:
        return [
            GatedRun(seed, rate, column) for column in columns for rate in self.learning_rates for seed in self._seeds
        ]

    @property
    def _seeds(self) -> range:
        return range(self.runs)

    def _learnt_gates(self, relu: Sequence[Batch], chosen_on: str) -> LearntGates:
        best_rate = chosen_learning_rates(accuracy_rows(relu), chosen_on)["relu"]
        learnt: LearntGates = {}
        for batch, result in relu:
            rows = result.best if self.checkpoint == "best_test" else result.last
            best = [slot for slot, run in enumerate(batch) if run.learning_rate == best_rate]
            learnt |= {(batch[slot].seed, "flnpf"): rows[slot] for slot in best}
        return learnt


def chosen_learning_rates(table: pd.DataFrame, by: str) -> dict[str, float]:
    """For each column the learning rate whose mean accuracy over runs is highest."""
    means = table.groupby(["column", "step_size"])[by].mean()
    return {str(column): float(means[column].idxmax()) for column in means.index.get_level_values(0).unique()}


def _at_chosen_rate(table: pd.DataFrame, chosen_on: str) -> pd.DataFrame:
    return table[table["step_size"] == table["column"].map(chosen_learning_rates(table, chosen_on))]


def _printed_protocol(table: pd.DataFrame) -> pd.DataFrame:
    """Learning rate and epoch best on the test images, with the last epoch beside it."""
    kept = _at_chosen_rate(table, _PRINTED)
    quantities = {
        "best test accuracy": kept["test best"],
        "last test accuracy": kept["test last"],
        "train accuracy": kept["train last"],
        "epochs": kept["epochs"],
    }
    frames = [kept[_KEYS].assign(quantity=name, value=values) for name, values in quantities.items()]
    frames.append(table[_KEYS].assign(quantity="tried best test accuracy", value=table["test best"]))
    frames.append(_advantages(kept))
    return pd.concat(frames, ignore_index=True)


def _validated_protocol(table: pd.DataFrame) -> pd.DataFrame:
    """Learning rate and epoch best on the held-out images."""
    kept = _at_chosen_rate(table, _VALIDATED)
    return kept[_KEYS].assign(quantity="validated test accuracy", value=kept["test at best validation"])


def _advantages(kept: pd.DataFrame) -> pd.DataFrame:
    """Differences between columns, seed by seed, of those pairs whose columns were all trained."""
    best = kept.pivot(index="seed", columns="column", values="test best")
    if {"frnpf_ii", "frnpf_di"} <= set(best.columns):
        best["frnpf"] = best[["frnpf_ii", "frnpf_di"]].mean(axis=1)
    frames = [
        pd.DataFrame({"seed": best.index, "column": f"{first} over {second}", "value": best[first] - best[second]})
        for first, second in _PAIRS
        if {first, second} <= set(best.columns)
    ]
    return pd.concat(frames, ignore_index=True).assign(quantity="advantage") if frames else pd.DataFrame()


def _dataset_of(context: Context, row: Row) -> Dataset:
    """The grey digits for fully connected networks, the colour images for convolutions."""
    channels = 1 if row.startswith("fc") else 3
    for dataset in context.datasets.values():
        if dataset.input_shape[-1] == channels:
            return dataset
    raise TangentbenchError(
        f"npk_table2: the row {row} needs images with {channels} channel(s), and no data set of this scale has them: "
        "add one to `datasets` in its catalogue.yaml"
    )
