"""One network's trainings: the choice of its learning rate on held-out images, then its runs, as rows of a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tangentbench.networks.resnet_runs import draw_runs, gains_together
from tangentbench.studies.conditioning.measure.histories import TRAIN_LOSS, history_rows
from tangentbench.studies.conditioning.measure.training_key import training_key
from tangentbench.studies.conditioning.memory import RUNS_TOGETHER_BYTES, run_bytes
from tangentbench.studies.conditioning.settings import Schedule, TrainingSettings
from tangentbench.studies.registry import Context
from tangentbench.training.batches import Examples, crop_and_flip, held_out
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.loop import Probe, Trained, TrainingRecipe, TrainingRuns, train
from tangentbench.training.optimisers import Optimiser, StepDecay, StepDrops
from tangentbench.training.representations import dot_product_probe

SEARCH_RUN = 1000
"""The random numbers of the learning rate's choice: none of the reported runs uses them."""
DIVERGED_LOSS = 2.0
"""A run whose loss ends above this many times that of uniform guessing has diverged, even if it is still a number."""

VALIDATION, DIVERGED = "validation accuracy", "diverged runs"


@dataclass(frozen=True, eq=False)
class Task:
    """Images to train on, to test on, and those whose representations are compared."""

    training: Examples
    test: Examples
    probe_epochs: Iterable[int]
    probe_images: int
    probe_absolute: bool

    def probe(self) -> Probe:
        """Every n-th test image: test images may be sorted by class."""
        inputs = self.test.inputs[:: max(1, len(self.test) // self.probe_images)][: self.probe_images]
        return dot_product_probe(inputs, self.probe_epochs, self.probe_absolute)


@dataclass(frozen=True)
class Training:
    """The runs of one network on one data set."""

    settings: TrainingSettings
    dataset: str
    runs: int
    seed: int

    @property
    def key(self) -> str:
        """The same for any number of runs."""
        return training_key(self.settings, self.dataset, self.seed)

    @property
    def name(self) -> str:
        return f"{self.settings.architecture.name}-{self.settings.architecture.normalisation}"

    def rows(self, context: Context, task: Task) -> pd.DataFrame:
        """One row per quantity, run and epoch; for a choice of the learning rate, one row per candidate."""
        if self.settings.learning_rate is not None:
            table = self._histories(context, task, self.settings.learning_rate)
        else:
            table = self._at_chosen_learning_rate(context, task)
        network = self.settings.architecture
        return table.assign(network=network.name, normalisation=network.normalisation, training=self.key)

    def _at_chosen_learning_rate(self, context: Context, task: Task) -> pd.DataFrame:
        """The runs at the learning rate best on held-out images, or at the next best if a run diverges with it.

        If runs diverge with every learning rate, the one with the fewest such runs is taken.
        """
        validation = self.validation_accuracies(context, task)
        tables: dict[float, pd.DataFrame] = {}
        diverged: dict[float, int] = {}
        for rate in sorted(validation, key=lambda rate: -validation[rate]):
            tables[rate] = self._histories(context, task, rate)
            diverged[rate] = diverged_runs(tables[rate], self.settings.architecture.classes)
            if not diverged[rate]:
                break
        chosen = min(diverged, key=lambda rate: diverged[rate])
        tried = [
            {"quantity": quantity, "step_size": rate, "value": value, "chosen": rate == chosen}
            for quantity, by_rate in ((VALIDATION, validation), (DIVERGED, diverged))
            for rate, value in by_rate.items()
        ]
        return pd.concat([pd.DataFrame(tried), tables[chosen]], ignore_index=True)

    def _histories(self, context: Context, task: Task, rate: float) -> pd.DataFrame:
        """All runs at this learning rate."""
        groups = self.groups(list(range(self.runs)))
        frames = [history_rows(self._train(context, task, runs, rate)) for runs in groups]
        return pd.concat(frames, ignore_index=True).assign(step_size=rate)

    def groups(self, runs: list[int]) -> list[list[int]]:
        """The runs in groups that fit in memory; one by one where training together is no faster."""
        network, batch_size = self.settings.architecture, self.settings.schedule.batch_size
        together = max(1, RUNS_TOGETHER_BYTES // run_bytes(network, batch_size)) if gains_together(network) else 1
        return [runs[start : start + together] for start in range(0, len(runs), together)]

    def _train(self, context: Context, task: Task, runs: list[int], rate: float) -> Trained:
        label, rates = f"{self.name}-{rate:g}-{runs[0]}", [rate] * len(runs)
        return train(
            draw_runs(self.settings.architecture, runs, self.seed),
            task.training,
            self._recipe(self.settings.schedule, self.settings.drop_epochs),
            TrainingRuns(runs, rates, self.seed),
            label=label,
            evaluate={"test": task.test},
            probes=[task.probe()],
            checkpoint=checkpoint_in(context.work, label),
        )

    def validation_accuracies(self, context: Context, task: Task) -> dict[float, float]:
        """Each candidate's accuracy on images held out of the training set, at the end of a shortened schedule.

        All candidates start from the same weights and see the same batches.
        """
        search, candidates = self.settings.search, self.settings.candidates
        assert search is not None
        rest, held = held_out(task.training, search.held_out, self.seed)
        accuracy: dict[float, float] = {}
        for numbers in self.groups(list(range(len(candidates)))):
            rates = [candidates[number] for number in numbers]
            label = f"{self.name}-step-{numbers[0]}"
            trained = train(
                draw_runs(self.settings.architecture, [SEARCH_RUN] * len(rates), self.seed),
                rest,
                self._recipe(self.settings.schedule.shortened(search.epochs)),
                TrainingRuns(range(len(rates)), rates, self.seed, order=[SEARCH_RUN] * len(rates)),
                label=label,
                evaluate={"validation": held},
                checkpoint=checkpoint_in(context.work, label),
            )
            accuracy |= dict(zip(rates, trained.accuracies("validation")["last"], strict=True))
        return accuracy

    def _recipe(self, schedule: Schedule, drop_epochs: Sequence[int] = ()) -> TrainingRecipe:
        augment = crop_and_flip if self.settings.augmentation else None
        return dataclasses.replace(recipe(schedule, drop_epochs), augment=augment)


def recipe(schedule: Schedule, drop_epochs: Sequence[int] = ()) -> TrainingRecipe:
    """The schedule for the training loop; `drop_epochs` replace its own drops of the learning rate."""
    factor, every = schedule.learning_rate_drop, schedule.drop_every_epochs
    return TrainingRecipe(
        schedule.epochs,
        schedule.batch_size,
        optimiser=Optimiser(schedule.optimiser, schedule.momentum, schedule.weight_decay),
        schedule=StepDrops(tuple(drop_epochs), factor) if drop_epochs else StepDecay(every, factor),
        diverging="stop",
    )


def diverged_runs(histories: pd.DataFrame, classes: int) -> int:
    losses = histories[histories["quantity"] == TRAIN_LOSS].sort_values("epoch")
    last = losses.drop_duplicates("seed", keep="last")["value"]
    return int((~(last <= DIVERGED_LOSS * np.log(classes))).sum())
