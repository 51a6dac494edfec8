"""Figure 3 (middle): how well the labels fit the path kernel while a network learns 4 against 7."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tangentbench.kernels.path_kernel import label_fit, neural_path_kernel
from tangentbench.networks.architecture import fully_connected
from tangentbench.networks.gated import RELU, GatedNets, build
from tangentbench.studies.npk.measure.images import some_images, split, with_signs
from tangentbench.studies.registry import Context, study
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.loop import Probe, TrainingRecipe, TrainingRuns, train
from tangentbench.training.optimisers import Optimiser

CRITICAL = {"bernoulli": lambda width: math.sqrt(2.0 / width), "glorot_uniform": lambda width: 1.0}


@study("npk_fig3b")
def label_alignment(
    context: Context,
    *,
    width: int,
    depth: int,
    initialisation: str,
    biases: bool,
    optimiser: str,
    step: float,
    batch_size: int,
    loss: str,
    kernel_images: int,
    ridge: float,
    train_images: int,
    runs: int,
    epochs: int,
    probe_every_epochs: int,
) -> pd.DataFrame:
    """`nu` and, for its scale, `nu over start` at each measured `epoch`; `test accuracy` in percent; a run a `seed`."""
    dataset = context.dataset
    examples, test = (with_signs(part) for part in split(dataset, train_images, None, context.seed))
    pictures, classes = some_images(dataset, kernel_images // len(dataset.classes), context.seed)
    signs = 2.0 * classes.double() - 1.0
    inputs = pictures.flatten(1)

    def measure(nets: GatedNets, active: Sequence[int], epoch: int) -> list[dict[str, Any]]:
        gates = nets.gates(pictures.expand(nets.runs, *pictures.shape))
        kernels = neural_path_kernel(inputs.double(), [gate.double() for gate in gates])
        fits = label_fit(kernels, signs, ridge).tolist()
        return [{"run": run, "value": value} for run, value in zip(active, fits, strict=True)]

    architecture = fully_connected(dataset.input_shape, width, depth, 1, biases=biases)
    numbers = list(range(runs))
    nets = build(architecture, RELU, numbers, context.seed, law=initialisation, scale=CRITICAL[initialisation](width))
    result = train(
        nets,
        examples,
        TrainingRecipe(epochs, batch_size, loss, Optimiser(optimiser)),
        TrainingRuns(numbers, [step] * runs, context.seed),
        label=f"4 against 7, {optimiser} step {step:g}",
        evaluate={"test": test},
        probes=[Probe(measure, epochs=frozenset(range(0, epochs + 1, probe_every_epochs)))],
        checkpoint=checkpoint_in(
            context.work, "fig3b", context.seed, width, depth, step, epochs, runs, ridge, train_images
        ),
    )
    fits = result.measured.rename(columns={"run": "seed"}).sort_values(["seed", "epoch"])
    start = fits.groupby("seed")["value"].transform("first")
    accuracy = result.history.assign(value=100 * result.history["test_accuracy"]).rename(columns={"run": "seed"})
    return pd.concat(
        [
            fits.assign(quantity="nu"),
            fits.assign(quantity="nu over start", value=fits["value"] / start),
            accuracy[["epoch", "seed", "value"]].assign(quantity="test accuracy"),
        ],
        ignore_index=True,
    )
