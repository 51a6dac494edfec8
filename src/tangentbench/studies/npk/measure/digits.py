"""Training of the fully connected networks that are measured while they learn digits."""

from __future__ import annotations

from tangentbench.networks.gated import GatedNets
from tangentbench.studies.npk.settings import DigitTraining, TrainingSettings
from tangentbench.studies.registry import Context
from tangentbench.training.batches import Examples
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.loop import Probe, Trained, TrainingRecipe, TrainingRuns, train
from tangentbench.training.optimisers import Optimiser


def recipe_of(training: TrainingSettings) -> TrainingRecipe:
    return TrainingRecipe(training.epochs, training.batch_size, training.loss, Optimiser(training.optimiser))


def train_measured(
    context: Context,
    settings: DigitTraining,
    nets: GatedNets,
    sets: tuple[Examples, Examples],
    probe: Probe,
    label: str,
    checkpoint: str | None = None,
) -> Trained:
    """Train `nets` on the first of `sets`, test them on the second, and measure `probe` on the way.

    With `checkpoint` an interrupted training resumes from a file of this name.
    """
    training = settings.training
    examples, test = sets
    runs = TrainingRuns(range(training.runs), [training.learning_rate] * training.runs, context.seed)
    return train(
        nets,
        examples,
        recipe_of(training),
        runs,
        label=f"{label}, {training.optimiser}, learning rate {training.learning_rate:g}",
        evaluate={"test": test},
        probes=[probe],
        checkpoint=checkpoint_in(context.work, checkpoint) if checkpoint else None,
    )
