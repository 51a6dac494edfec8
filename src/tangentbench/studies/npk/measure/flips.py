"""A question the papers leave open: which share of the gates changes while a network trains, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from tangentbench.errors import UnknownName
from tangentbench.networks.architecture import fully_connected
from tangentbench.networks.gated import RELU, GatedNets, Gating, build, decoupled
from tangentbench.studies.npk.measure.images import some_images, split
from tangentbench.studies.registry import Context, study
from tangentbench.training.loop import Probe, TrainingRecipe, TrainingRuns, train
from tangentbench.training.optimisers import Optimiser


@study("npk_gates")
def flipping_gates(
    context: Context,
    *,
    modes: Sequence[str],
    width: int,
    depth: int,
    soft_gate_beta: float,
    soft_gate_height: float,
    optimiser: str,
    step: float,
    batch_size: int,
    gate_images_a_class: int,
    train_images: int,
    runs: int,
    epochs: int,
) -> pd.DataFrame:
    """Shares in percent of the gates of a `layer` over the same images, after each `epoch`; a run a `seed`.

    `flipped since start`: gates that differ from the untrained network's; `flipped in the epoch`: from those one epoch
    earlier; `on`: those that are on. A soft gate counts as on where its pre-activation is positive. `test accuracy`
    stands without a layer.
    """
    gatings = {"relu": RELU, "dnpfl": decoupled(soft_gate_beta, soft_gate_height)}
    dataset = context.dataset
    examples, test = split(dataset, train_images, None, context.seed)
    pictures, _ = some_images(dataset, gate_images_a_class, context.seed)
    architecture = fully_connected(dataset.input_shape, width, depth, len(dataset.classes))
    numbers = list(range(runs))
    frames = []
    for mode in modes:
        if mode not in gatings:
            raise UnknownName("mode", mode, gatings)
        result = train(
            build(architecture, gatings[mode], numbers, context.seed),
            examples,
            TrainingRecipe(epochs, batch_size, optimiser=Optimiser(optimiser)),
            TrainingRuns(numbers, [step] * runs, context.seed),
            label=f"gates of {mode}, {optimiser} step {step:g}",
            evaluate={"test": test},
            probes=[Probe(Flips(pictures), epochs=frozenset(range(epochs + 1)))],
        )
        accuracy = result.history.assign(value=100 * result.history["test_accuracy"], quantity="test accuracy")
        frames.append(result.measured.assign(mode=mode))
        frames.append(accuracy[["epoch", "run", "quantity", "value"]].assign(mode=mode))
    table = pd.concat(frames, ignore_index=True).rename(columns={"run": "seed"})
    return table.astype({"layer": "Int64"})


class Flips:
    """A probe that remembers the gates at the start and one epoch before."""

    def __init__(self, pictures: Tensor) -> None:
        self.pictures = pictures
        self.start: list[Tensor] = []
        self.before: list[Tensor] = []

    def __call__(self, nets: GatedNets, active: Sequence[int], epoch: int) -> list[dict[str, Any]]:
        now = on(nets.gates(self.pictures.expand(nets.runs, *self.pictures.shape)), nets.gating)
        if epoch == 0:
            self.start = self.before = now
        rows = []
        for layer, gates in enumerate(now):
            shares = {
                "on": gates,
                "flipped since start": gates != self.start[layer],
                "flipped in the epoch": gates != self.before[layer],
            }
            rows += [
                {"run": run, "layer": layer + 1, "quantity": name, "value": 100 * float(share[slot].double().mean())}
                for name, share in shares.items()
                for slot, run in enumerate(active)
                if epoch or name == "on"
            ]
        self.before = now
        return rows


def on(gates: Sequence[Tensor], gating: Gating) -> list[Tensor]:
    threshold = torch.tensor(gating.height / 2 if gating.soft else 0.0)
    return [gate > threshold for gate in gates]
