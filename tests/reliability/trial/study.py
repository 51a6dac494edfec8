"""A training and a Gram matrix that take a few seconds, mostly asleep, and note every step they begin."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from tangentbench.gram import Gram
from tangentbench.kernels import ntk
from tangentbench.networks.architecture import fully_connected
from tangentbench.networks.gated import RELU, build
from tangentbench.studies.registry import Context, study
from tangentbench.studies.settings import Settings, settings_of
from tangentbench.training.batches import Examples
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.loop import Probe, TrainingRecipe, TrainingRuns, train

STEPS = Path("steps.log")
HOLD = Path("hold")
"""While this file is there, work stands still."""
STOP = Path("stop")
"""The number of the step, counted over all jobs, at which a job fails."""
PROBE = 2
"""Inputs on which a store tries a kernel that it is given: no step of the work."""


def note(step: str, pause: float) -> None:
    with STEPS.open("a") as stream:
        stream.write(f"{step}\n")
    if STOP.exists() and len(STEPS.read_text().splitlines()) >= int(STOP.read_text()):
        raise SystemExit("stopped")
    time.sleep(pause)
    while HOLD.exists():
        time.sleep(0.02)


@settings_of("trial_training")
class TrialTraining(Settings):
    epochs: int
    runs: int
    width: int
    pause: float


@settings_of("trial_gram")
class TrialGram(Settings):
    inputs: int
    tile: int
    depth: int
    pause: float


@study("trial_training")
def training(context: Context, settings: TrialTraining) -> pd.DataFrame:
    assert context.work is not None
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(context.seed)
    labels = torch.arange(60) % 3
    examples = Examples(torch.randn(60, 5, generator=generator) + labels[:, None], labels)
    numbers = list(range(settings.runs))

    checkpoint = checkpoint_in(context.work, "training")
    assert checkpoint is not None

    def sleepy(nets: Any, active: Any, epoch: Any) -> Any:
        note(f"epoch {epoch}", settings.pause)
        return []

    trained = train(
        build(fully_connected((5,), settings.width, 3, 3), RELU, numbers, context.seed),
        examples,
        TrainingRecipe(epochs=settings.epochs),
        TrainingRuns(numbers, [0.05] * settings.runs, context.seed),
        label="trial",
        evaluate={"test": examples},
        probes=[Probe(sleepy, epochs=frozenset(range(1, settings.epochs + 1)))],
        checkpoint=replace(checkpoint, every_seconds=0.0),
    )
    return trained.history


@study("trial_gram")
def gram(context: Context, settings: TrialGram) -> pd.DataFrame:
    assert context.work is not None

    def kernel(x1: Any, x2: Any) -> Any:
        if len(x1) > PROBE:
            note("tile", settings.pause)
        return ntk(x1, x2, depth=settings.depth)

    points = context.dataset.x_train[: settings.inputs]
    matrix = Gram.create(
        context.work.folder("gram"), points, kernel={"name": "ntk", "depth": settings.depth}, tile=settings.tile
    )
    matrix.compute(kernel, progress=False)
    values = np.linalg.eigvalsh(matrix.to_array().astype(np.float64))
    return pd.DataFrame({"index": np.arange(len(values)), "eigenvalue": values})
