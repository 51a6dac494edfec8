"""The finite networks of Table 1, CNN-V and CNN-GAP, searched over channels, kappas and learning rates as the paper
does.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from tangentbench.datasets.choice import Labels, Selection, select
from tangentbench.kernels.exact import cntk
from tangentbench.networks.ntk_cnn import NtkCnnNets
from tangentbench.studies.cntk.cells import Cell
from tangentbench.studies.cntk.measure.accuracy import coded
from tangentbench.studies.cntk.networks import searched_network
from tangentbench.studies.cntk.settings import Fit, Table1
from tangentbench.studies.registry import Context
from tangentbench.training.batches import Examples
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.loop import TrainingRecipe, TrainingRuns, train

SCALE_IMAGES = 8
"""Training images on which the kernel's size is measured for the learning rate."""


@dataclass(frozen=True)
class _Candidate:
    """One choice of the hyperparameters."""

    channels: int
    kappa: float
    learning_rate: float


@dataclass(frozen=True, eq=False)
class _Problem:
    """What all candidates of a cell share; `tangent` and `variance` are the means of the exact NTK and NNGP k(x, x)."""

    images: Selection
    train: Examples
    test: Examples
    tangent: float
    variance: float


def network_accuracies(context: Context, settings: Table1, cell: Cell) -> list[dict[str, Any]]:
    """One row per run with the hyperparameters that are best on average: `value` is the accuracy of the best epoch.

    `last_epoch` is that of the last epoch. A network that diverges counts with accuracy 0.
    """
    problem = _problem(context, settings, cell)
    search = settings.networks
    candidates = itertools.starmap(_Candidate, itertools.product(search.channels, search.kappas, search.learning_rates))
    results = [_trained_rows(context, settings, cell, problem, candidate) for candidate in candidates]
    # of equal candidates the first
    best = max(results, key=lambda rows: np.mean([row["value"] for row in rows]))
    counts = {"train_images": len(problem.images.y_train), "test_images": len(problem.images.y_test)}
    return [row | counts for row in best]


def _problem(context: Context, settings: Table1, cell: Cell) -> _Problem:
    images = select(context.dataset, settings.image_choice(cell.column), context.seed)
    return _Problem(
        images,
        _examples(settings.fit, images.x_train, images.y_train, images.classes),
        _examples(settings.fit, images.x_test, images.y_test, images.classes),
        _mean_kernel(settings, cell, "ntk", images.x_train),
        _mean_kernel(settings, cell, "nngp", images.x_train),
    )


def _examples(fit: Fit, inputs: np.ndarray, labels: Labels, classes: int) -> Examples:
    return Examples(torch.from_numpy(inputs), torch.from_numpy(coded(fit, labels, classes)).float())


def _mean_kernel(settings: Table1, cell: Cell, kind: Literal["ntk", "nngp"], images: np.ndarray) -> float:
    """The mean of the exact k(x, x) over a few images: of the tangent kernel, or the variance of f at the start."""
    few = images[:: max(1, len(images) // SCALE_IMAGES)][:SCALE_IMAGES]
    values = cntk(
        few,
        depth=cell.depth,
        pooling=cell.column.pooling,
        kind=kind,
        train_first_last=settings.layers.trains_first_and_last(cell.column.pooling),
        filter=settings.layers.filter_size,
        progress=False,
    )
    return float(np.diagonal(values).mean())


def _trained_rows(
    context: Context, settings: Table1, cell: Cell, problem: _Problem, candidate: _Candidate
) -> list[dict[str, Any]]:
    """One row per run."""
    search, images = settings.networks, problem.images
    kappa, rate = candidate.kappa, candidate.learning_rate
    network = searched_network(settings, cell, candidate.channels, images.classes, images.x_train.shape[3])
    label = (
        f"{network.kind}, depth {cell.depth}, {candidate.channels} channels, kappa {kappa:g}, learning rate {rate:g}"
    )
    recipe = TrainingRecipe(search.epochs, search.batch_size, loss=search.loss, diverging="stop")
    runs = list(range(search.runs))
    learning_rates = [rate * problem.variance / (kappa**2 * problem.tangent)] * len(runs)
    trained = train(
        NtkCnnNets(network, runs, context.seed, kappa=kappa / math.sqrt(problem.variance)),
        problem.train,
        recipe,
        TrainingRuns(runs, learning_rates, context.seed),
        label=label,
        evaluate={"test": problem.test},
        checkpoint=checkpoint_in(context.work, label),
    )
    return [
        {
            "seed": int(row["run"]),
            "value": float(row["best"]),
            "last_epoch": float(row["last"]),
            "channels": candidate.channels,
            "kappa": kappa,
            "step": rate,
        }
        for _, row in trained.accuracies().iterrows()
    ]
