"""One network's trainings: the choice of its step on held-out images, then its runs, as rows of a tidy table."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from tangentbench.networks.resnet_runs import DeepArchitecture, draw_runs, gains_together
from tangentbench.networks.resnets import parameter_count
from tangentbench.studies.conditioning.settings import Course, Images, StepChoice
from tangentbench.studies.registry import Context
from tangentbench.training.batches import Examples, crop_and_flip, held_out
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.loop import Probe, Trained, TrainingRecipe, TrainingRuns, train
from tangentbench.training.representations import dot_product_probe

SEARCH_RUN = 1000
"""The random numbers of the step's choice: none of the runs that are reported has them."""
MEMORY_BYTES = 3 * 2**30
"""What runs that train together may take."""
DIVERGED_LOSS = 2.0
"""A run whose loss ends above so many times that of knowing nothing has diverged, also where it is still a number."""
COPIES, NUMBER_BYTES, TENSORS_A_LAYER = 6, 4, 3
"""Parameters, gradient, momentum, last, best and a copy of them, in float32; what a layer keeps for its way back."""

TRAIN_ACCURACY, TEST_ACCURACY, TRAIN_LOSS = "train accuracy", "test accuracy", "train loss"
DOT_PRODUCT, VALIDATION, DIVERGED = "mean dot product", "validation accuracy", "diverged runs"


@dataclass(frozen=True, eq=False)
class Task:
    """Images to train on, to test on, and those whose representations are compared."""

    training: Examples
    test: Examples
    probe_epochs: Iterable[int]
    probe_images: int
    probe_absolute: bool

    def probe(self) -> Probe:
        """Every so many test images: they may lie in the order of their classes."""
        inputs = self.test.inputs[:: max(1, len(self.test) // self.probe_images)][: self.probe_images]
        return dot_product_probe(inputs, self.probe_epochs, self.probe_absolute)


@dataclass(frozen=True)
class Training:
    """Everything that decides what the runs of one network do."""

    architecture: DeepArchitecture
    course: Course
    drops: tuple[int, ...]
    images: Images
    dataset: str
    choice: StepChoice
    printed_step: float | None
    runs: int
    augmentation: bool
    probe_absolute: bool
    seed: int

    @property
    def key(self) -> str:
        """Tells a training from every other one, whatever the number of runs; figures with the same key share rows."""
        return hashlib.sha256(repr(dataclasses.replace(self, runs=0)).encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        return f"{self.architecture.kind}_{self.architecture.depth}-{self.architecture.normalisation}"

    def rows(self, context: Context, task: Task) -> pd.DataFrame:
        """A row a quantity, run and epoch; and for the step's choice a row a step that was tried."""
        if self.printed_step is not None:
            table = self.histories(context, task, self.printed_step)
        else:
            table = self.at_chosen_step(context, task)
        about = self.architecture
        return table.assign(network=f"{about.kind}_{about.depth}", normalisation=about.normalisation, training=self.key)

    def at_chosen_step(self, context: Context, task: Task) -> pd.DataFrame:
        """The runs at the step best on held-out images; the next best takes its place where a run diverges with it.

        Where runs diverge with every step, the one with the fewest such runs is taken.
        """
        validation = self.validation_accuracies(context, task)
        tables: dict[float, pd.DataFrame] = {}
        diverged: dict[float, int] = {}
        for step in sorted(validation, key=lambda step: -validation[step]):
            tables[step] = self.histories(context, task, step)
            diverged[step] = diverged_runs(tables[step], self.architecture.classes)
            if not diverged[step]:
                break
        chosen = min(diverged, key=lambda step: diverged[step])
        tried = [
            {"quantity": quantity, "step_size": step, "value": value, "chosen": step == chosen}
            for quantity, of_steps in ((VALIDATION, validation), (DIVERGED, diverged))
            for step, value in of_steps.items()
        ]
        return pd.concat([pd.DataFrame(tried), tables[chosen]], ignore_index=True)

    def histories(self, context: Context, task: Task, step: float) -> pd.DataFrame:
        """What every run does with this step."""
        groups = self.groups(list(range(self.runs)))
        frames = [history_rows(self.train(context, task, runs, step)) for runs in groups]
        return pd.concat(frames, ignore_index=True).assign(step_size=step)

    def groups(self, runs: list[int]) -> list[list[int]]:
        """The runs in batches that fit memory; one by one where training together gains nothing."""
        together = max(1, MEMORY_BYTES // run_bytes(self.architecture, self.course.batch_size))
        together = together if gains_together(self.architecture) else 1
        return [runs[start : start + together] for start in range(0, len(runs), together)]

    def train(self, context: Context, task: Task, runs: list[int], step: float) -> Trained:
        label, steps = f"{self.name}-{step:g}-{runs[0]}", [step] * len(runs)
        recipe = self.recipe(self.course, self.drops)
        return train(
            draw_runs(self.architecture, runs, self.seed),
            task.training,
            recipe,
            TrainingRuns(runs, steps, self.seed),
            label=label,
            evaluate={"test": task.test},
            probes=[task.probe()],
            checkpoint=checkpoint_in(context.work, label, self, steps),
        )

    def validation_accuracies(self, context: Context, task: Task) -> dict[float, float]:
        """Each step's accuracy after the last epoch of a shortened course, on images held out of the training set.

        All steps start from the same weights and see the same batches.
        """
        steps = self.choice.steps(self.architecture.kind)
        rest, held = held_out(task.training, self.choice.held_out, self.seed)
        recipe = self.recipe(self.course.shortened(self.choice.epochs))
        accuracy: dict[float, float] = {}
        for places in self.groups(list(range(len(steps)))):
            tried = [steps[place] for place in places]
            label = f"{self.name}-step-{places[0]}"
            trained = train(
                draw_runs(self.architecture, [SEARCH_RUN] * len(tried), self.seed),
                rest,
                recipe,
                TrainingRuns(range(len(tried)), tried, self.seed, order=[SEARCH_RUN] * len(tried)),
                label=label,
                evaluate={"validation": held},
                checkpoint=checkpoint_in(context.work, label, self, tried),
            )
            accuracy |= dict(zip(tried, trained.accuracies("validation")["last"], strict=True))
        return accuracy

    def recipe(self, course: Course, drops: tuple[int, ...] = ()) -> TrainingRecipe:
        return dataclasses.replace(course.recipe(drops), augment=crop_and_flip if self.augmentation else None)


def diverged_runs(histories: pd.DataFrame, classes: int) -> int:
    losses = histories[histories["quantity"] == TRAIN_LOSS].sort_values("epoch")
    last = losses.drop_duplicates("seed", keep="last")["value"]
    return int((~(last <= DIVERGED_LOSS * np.log(classes))).sum())


def run_bytes(architecture: DeepArchitecture, batch_size: int) -> int:
    """Memory of one run: its parameters with their copies, and what the layers keep for the way back."""
    with torch.device("meta"):
        parameters = parameter_count(architecture.network(0))
    if architecture.kind == "fc":
        units = architecture.depth * architecture.width
    else:
        _, height, width = architecture.image_shape
        # stages of equal length with half the sides and twice the channels of the one before: 1 + 1/2 + 1/4
        units = int(architecture.depth * architecture.width * height * width * 7 / 12)
    return NUMBER_BYTES * (COPIES * parameters + TENSORS_A_LAYER * batch_size * units)


def history_rows(trained: Trained) -> pd.DataFrame:
    """A row a quantity, run (`seed`) and epoch; accuracies in percent."""
    measures: Mapping[str, tuple[pd.DataFrame, str, float]] = {
        TRAIN_ACCURACY: (trained.history, "train_accuracy", 100.0),
        TEST_ACCURACY: (trained.history, "test_accuracy", 100.0),
        TRAIN_LOSS: (trained.history, "train_loss", 1.0),
        DOT_PRODUCT: (trained.measured, "dot_product", 1.0),
    }
    frames = [
        pd.DataFrame(
            {"quantity": quantity, "seed": table["run"], "epoch": table["epoch"], "value": factor * table[column]}
        )
        for quantity, (table, column, factor) in measures.items()
    ]
    return pd.concat(frames, ignore_index=True)


def epochs_to_reach(accuracies: np.ndarray, level: float, chance: float) -> float:
    """Epochs until the train accuracy (percent, after epochs 1, 2, ...) first reaches `level`.

    Between two epochs it runs on a line, and it starts at `chance`. A run that never gets there counts with one epoch
    more than it had.
    """
    above = np.flatnonzero(accuracies >= level)
    if not len(above):
        return float(len(accuracies) + 1)
    first = int(above[0])
    before = accuracies[first - 1] if first else chance
    share = 1.0 if accuracies[first] <= before else (level - before) / (accuracies[first] - before)
    return float(first + max(share, 0.0))
