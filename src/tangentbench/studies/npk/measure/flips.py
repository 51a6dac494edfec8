"""A question the papers leave open: which share of the gates changes while a network trains, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from tangentbench.networks.gated import RELU, GatedNets, Gating, build, decoupled
from tangentbench.studies.npk.measure.digits import train_measured
from tangentbench.studies.npk.measure.images import some_images, split
from tangentbench.studies.npk.settings import FlippingGates, Mode
from tangentbench.studies.registry import Context, study
from tangentbench.training.loop import Probe


@study("npk_gates")
def flipping_gates(context: Context, settings: FlippingGates) -> pd.DataFrame:
    """Shares in percent of the gates of a `layer` over the same images, after each `epoch`; every run has its `seed`.

    `flipped since start`: gates that differ from the untrained network's; `flipped in the epoch`: from those one epoch
    earlier; `on`: those that are on. A soft gate counts as on where its pre-activation is positive. `test accuracy`
    has no layer.
    """
    frames = [frame.assign(mode=mode) for mode in settings.modes for frame in _frames(context, settings, mode)]
    table = pd.concat(frames, ignore_index=True).rename(columns={"run": "seed"})
    return table.astype({"layer": "Int64"})


def _frames(context: Context, settings: FlippingGates, mode: Mode) -> list[pd.DataFrame]:
    """The shares and the accuracies of one mode."""
    dataset = context.dataset
    pictures, _ = some_images(dataset, settings.gate_images_per_class, context.seed)
    architecture = settings.network.architecture(dataset.input_shape, len(dataset.classes))
    gating = RELU if mode == "relu" else decoupled(settings.soft_gate.beta, settings.soft_gate.height)
    result = train_measured(
        context,
        settings,
        build(architecture, gating, range(settings.training.runs), context.seed),
        split(dataset, settings.train_images, None, context.seed),
        Probe(_Flips(pictures), epochs=frozenset(range(settings.training.epochs + 1))),
        label=f"gates of {mode}",
    )
    accuracy = result.history.assign(value=100 * result.history["test_accuracy"], quantity="test accuracy")
    return [result.measured, accuracy[["epoch", "run", "quantity", "value"]]]


class _Flips:
    """A probe that remembers the gates at the start and one epoch before, so that its training cannot be resumed."""

    def __init__(self, pictures: Tensor) -> None:
        self.pictures = pictures
        self.start: list[Tensor] = []
        self.before: list[Tensor] = []

    def __call__(self, nets: GatedNets, active: Sequence[int], epoch: int) -> list[dict[str, Any]]:
        now = _on(nets.gates(self.pictures.expand(nets.runs, *self.pictures.shape)), nets.gating)
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


def _on(gates: Sequence[Tensor], gating: Gating) -> list[Tensor]:
    threshold = torch.tensor(gating.height / 2 if gating.soft else 0.0)
    return [gate > threshold for gate in gates]
