"""Figure 3 (middle): how well the labels fit the path kernel while a network learns 4 against 7."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from torch import Tensor

from tangentbench.kernels.path import label_fit, neural_path_kernel
from tangentbench.networks.gated import RELU, GatedNets, build
from tangentbench.studies.npk.measure.digits import train_measured
from tangentbench.studies.npk.measure.images import some_images, split, with_signs
from tangentbench.studies.npk.settings import LabelAlignment
from tangentbench.studies.registry import Context, study
from tangentbench.training.loop import Probe, Trained

_CRITICAL = {"bernoulli": lambda width: math.sqrt(2.0 / width), "glorot_uniform": lambda width: 1.0}
"""The scale of the weights at which the signal keeps its size, by the distribution they are drawn from."""


@study("npk_fig3b")
def label_alignment(context: Context, settings: LabelAlignment) -> pd.DataFrame:
    """`nu` and, for its scale, `nu over start` at each measured `epoch`; `test accuracy` in percent.

    Every run has its `seed`.
    """
    dataset = context.dataset
    examples, test = (with_signs(part) for part in split(dataset, settings.train_images, None, context.seed))
    pictures, classes = some_images(dataset, settings.kernel_images // len(dataset.classes), context.seed)
    probe = Probe(
        _LabelFit(pictures, 2.0 * classes.double() - 1.0, settings.ridge),
        epochs=frozenset(range(0, settings.training.epochs + 1, settings.probe_every_epochs)),
    )
    result = train_measured(
        context,
        settings,
        _untrained(context, settings),
        (examples, test),
        probe,
        label="4 against 7",
        checkpoint="fig3b",
    )
    return _rows(result)


def _untrained(context: Context, settings: LabelAlignment) -> GatedNets:
    return build(
        settings.network.architecture(context.dataset.input_shape, 1, biases=settings.biases),
        RELU,
        range(settings.training.runs),
        context.seed,
        distribution=settings.initialisation,
        scale=_CRITICAL[settings.initialisation](settings.network.width),
    )


@dataclass(frozen=True, eq=False)
class _LabelFit:
    """A probe: nu of the path kernel on `pictures` (n, ...) with the labels `signs` (n,)."""

    pictures: Tensor
    signs: Tensor
    ridge: float

    def __call__(self, nets: GatedNets, active: Sequence[int], epoch: int) -> list[dict[str, Any]]:
        gates = nets.gates(self.pictures.expand(nets.runs, *self.pictures.shape))
        kernels = neural_path_kernel(self.pictures.flatten(1).double(), [gate.double() for gate in gates])
        fits = label_fit(kernels, self.signs, self.ridge).tolist()
        return [{"run": run, "value": value} for run, value in zip(active, fits, strict=True)]


def _rows(result: Trained) -> pd.DataFrame:
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
