"""The finite networks of Table 1, CNN-V and CNN-GAP, searched over channels, steps and kappas as the paper does."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from tangentbench.datasets.choice import Selection
from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.kernels.cntk import cntk
from tangentbench.networks.ntk_cnn import NtkCnnNets, NtkCnnSpec
from tangentbench.studies.cntk.measure.accuracy import Fit
from tangentbench.training.batches import Examples
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.loop import TrainingRecipe, TrainingRuns, train

SCALE_IMAGES = 8
"""Training images on which the kernel's size is measured for the step."""
POOLINGS: dict[str, Any] = {"cnn_v": "flatten", "cnn_gap": "gap"}
CHOICES = ("test",)


@dataclass(frozen=True)
class Search:
    """What is searched over.

    kappas: the standard deviation of the networks' output at initialisation; kappa is this over that of f.
    steps: step sizes in units of 1 / (kappa^2 mean k(x, x)), k the exact tangent kernel; twice the unit is the border
        of stability for the largest eigenvalue the kernel matrix over n can have. The paper's values are not printed.
    chosen_on: `test` is the paper's protocol, the best test accuracy among all hyperparameters.
    """

    channels: Sequence[int]
    steps: Sequence[float]
    kappas: Sequence[float]
    epochs: int
    batch_size: int
    loss: str
    runs: int
    chosen_on: str = "test"

    def __post_init__(self) -> None:
        if self.chosen_on not in CHOICES:
            raise UnknownName("way to choose hyperparameters", self.chosen_on, CHOICES)


def network_accuracies(
    kind: str,
    depth: int,
    filter_size: int,
    train_first_last: bool,
    images: Selection,
    fit: Fit,
    search: Search,
    *,
    seed: int,
    work: Path | None,
) -> list[dict[str, Any]]:
    """A row a run with the hyperparameters that are best on average: `value` is the accuracy of the best test epoch.

    `last_epoch` is that of the last epoch. A network that diverges counts with accuracy 0.
    """
    targets = torch.from_numpy(fit.targets(images.y_train, images.classes)).float()
    test_targets = torch.from_numpy(fit.targets(images.y_test, images.classes)).float()
    training = Examples(torch.from_numpy(images.x_train), targets)
    test = Examples(torch.from_numpy(images.x_test), test_targets)
    setting = (depth, filter_size, train_first_last, images.x_train)
    tangent, variance = mean_kernel(kind, "ntk", *setting), mean_kernel(kind, "nngp", *setting)
    best: list[dict[str, Any]] = []
    for channels, kappa in itertools.product(search.channels, search.kappas):
        height, width, colours = images.x_train.shape[1:]
        architecture = NtkCnnSpec(
            kind, depth, channels, (height, width, colours), images.classes, filter_size, train_first_last
        )
        for step in search.steps:
            label = f"{kind}, depth {depth}, {channels} channels, kappa {kappa:g}, step {step:g}"
            recipe = TrainingRecipe(search.epochs, search.batch_size, loss=search.loss, diverging="stop")
            runs = list(range(search.runs))
            trained = train(
                NtkCnnNets(architecture, runs, seed, kappa=kappa / math.sqrt(variance)),
                training,
                recipe,
                TrainingRuns(runs, [step * variance / (kappa**2 * tangent)] * len(runs), seed),
                label=label,
                evaluate={"test": test},
                checkpoint=checkpoint_in(work, label, architecture, recipe, seed, images.x_train.shape),
            )
            rows = [
                {
                    "seed": int(row["run"]),
                    "value": float(row["best"]),
                    "last_epoch": float(row["last"]),
                    "channels": channels,
                    "kappa": kappa,
                    "step": step,
                }
                for _, row in trained.accuracies().iterrows()
            ]
            if not best or np.mean([row["value"] for row in rows]) > np.mean([row["value"] for row in best]):
                best = rows
    if not best:
        raise TangentbenchError(f"{kind}: there is nothing to search: give channels, steps and kappas")
    return [row | {"train_images": len(images.y_train), "test_images": len(images.y_test)} for row in best]


def mean_kernel(
    kind: str, of: Literal["ntk", "nngp"], depth: int, filter_size: int, train_first_last: bool, images: np.ndarray
) -> float:
    """The mean of the exact k(x, x) over a few images: of the tangent kernel, or the variance of f at the start."""
    few = images[:: max(1, len(images) // SCALE_IMAGES)][:SCALE_IMAGES]
    values = cntk(
        few,
        depth=depth,
        pooling=POOLINGS[kind],
        kind=of,
        train_first_last=train_first_last,
        filter=filter_size,
        progress=False,
    )
    return float(np.diagonal(values).mean())
