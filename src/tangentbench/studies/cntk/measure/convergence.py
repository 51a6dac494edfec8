"""Theorems 3.1 and 3.2 as measurements: wide networks tend to their kernel, before training and after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from tangentbench.datasets.choice import ImageChoice, Selection, select
from tangentbench.datasets.dataset import Inputs
from tangentbench.datasets.scaling import normed
from tangentbench.kernels.dense import ntk
from tangentbench.kernels.exact import cntk
from tangentbench.kernels.gradient_features import GradientKernel
from tangentbench.networks.ntk_cnn import NtkCnnNets
from tangentbench.networks.ntk_cnn_spec import NtkCnnSpec
from tangentbench.studies.cntk.networks import wide_network
from tangentbench.studies.cntk.settings import Convergence, Trained
from tangentbench.studies.registry import Context, study
from tangentbench.training.batches import Examples
from tangentbench.training.loop import TrainingRecipe, TrainingRuns, train

Float64 = NDArray[np.float64]
KERNEL_ERROR, PREDICTION_ERROR = "kernel error", "prediction error"


@study("cntk_convergence")
def convergence(context: Context, settings: Convergence) -> pd.DataFrame:
    """Relative distances at every `width`, a run is a `seed`.

    `kernel error`: ||H - H*||_F / ||H*||_F of the tangent kernel at initialisation (Theorem 3.1).
    `prediction error`: the distance on test images between kappa f after training and the exact kernel's prediction
    after as many steps of gradient descent, over the size of the latter; as training goes on that is kernel regression,
    and the distance to it is `to_regression` (Theorem 3.2).
    """
    few = _prepared(context, settings, train=settings.images, test=settings.images)
    fitted = _prepared(context, settings, train=settings.trained.train_images, test=settings.trained.test_images)
    rows: list[dict[str, Any]] = []
    for kind in settings.architectures:
        rows += _kernel_errors(context, settings, kind, few)
        rows += _trained_errors(context, settings, kind, fitted)
    return pd.DataFrame(rows)


def _kernel_errors(context: Context, settings: Convergence, kind: str, images: Selection) -> Iterator[dict[str, Any]]:
    colours = images.x_train.shape[3]
    for depth in settings.depths:
        networks = [wide_network(settings, kind, depth, width, colours) for width in settings.widths]
        exact = limit_kernel(networks[0], images.x_train, None)
        for network in tqdm(networks, desc=f"{kind}, depth {depth}", disable=None):
            for run in range(settings.runs):
                empirical = GradientKernel(NtkCnnNets(network, [run], context.seed))(images.x_train, None)
                error = float(np.linalg.norm(empirical - exact) / np.linalg.norm(exact))
                yield _row(KERNEL_ERROR, network, run, error)


def _trained_errors(context: Context, settings: Convergence, kind: str, images: Selection) -> Iterator[dict[str, Any]]:
    trained, colours = settings.trained, images.x_train.shape[3]
    for width in tqdm(trained.widths, desc=f"{kind}, trained", disable=None):
        network = wide_network(settings, kind, trained.depth, width, colours)
        for run in range(trained.runs):
            to_descent, to_regression = _prediction_errors(network, images, trained, run, context.seed)
            yield {**_row(PREDICTION_ERROR, network, run, to_descent), "to_regression": to_regression}


def _row(quantity: str, network: NtkCnnSpec, run: int, value: float) -> dict[str, Any]:
    return {
        "quantity": quantity,
        "architecture": network.kind,
        "depth": network.depth,
        "width": network.width,
        "seed": run,
        "value": value,
    }


def _prepared(context: Context, settings: Convergence, *, train: int, test: int) -> Selection:
    """A few images, averaged down, standardised and then of norm one where the theorems want it."""
    choice = ImageChoice(train, test, settings.image_side, pixels="standardised", subset="random")
    chosen = select(context.dataset, choice, context.seed)
    if settings.inputs != "unit_norm":
        return chosen
    return replace(chosen, x_train=normed(chosen.x_train), x_test=normed(chosen.x_test))


def limit_kernel(network: NtkCnnSpec, x1: Inputs, x2: Inputs | None) -> Float64:
    """The tangent kernel of infinitely wide networks of this kind, in the scale of networks/ntk_cnn.py."""
    first, second = x1.astype(np.float64), None if x2 is None else x2.astype(np.float64)
    if network.kind == "fc":
        first, second = first.reshape(len(first), -1), None if second is None else second.reshape(len(second), -1)
        # section 3 does not scale the input layer by the input's dimension
        return np.asarray(ntk(first, second, depth=network.depth) * first.shape[1] / 2)
    values: Float64 = cntk(
        first,
        second,
        depth=network.depth,
        pooling="gap" if network.kind == "cnn_gap" else "flatten",
        train_first_last=network.train_first_last,
        filter=network.filter_size,
        progress=False,
    )
    return values


def _prediction_errors(
    network: NtkCnnSpec, images: Selection, training: Trained, run: int, seed: int
) -> tuple[float, float]:
    """Distances of a trained network to the exact kernel's descent after as many steps, and to its regression."""
    targets = np.where(images.y_train < images.classes / 2, -1.0, 1.0)
    values, vectors = np.linalg.eigh(limit_kernel(network, images.x_train, None))
    cross = limit_kernel(network, images.x_test, images.x_train) @ vectors / values
    # a step shrinks the residual along an eigenvector by 1 - learning rate * eigenvalue / largest
    learnt = 1.0 - (1.0 - training.learning_rate * values / values[-1]) ** training.steps
    descent, regression = cross @ (learnt * (vectors.T @ targets)), cross @ (vectors.T @ targets)
    nets = NtkCnnNets(network, [run], seed, kappa=training.kappa)
    # the loop's loss is a mean, the theorem's a sum
    learning_rate = training.learning_rate * len(targets) / (training.kappa**2 * float(values[-1]))
    train(
        nets,
        Examples(torch.from_numpy(images.x_train), torch.from_numpy(targets).float()[:, None]),
        TrainingRecipe(training.steps, len(targets), loss=training.loss),
        TrainingRuns([run], [learning_rate], seed),
        label=f"{network.kind}, depth {network.depth}, width {network.width}",
    )
    trained = _predictions(nets, torch.from_numpy(images.x_test))
    distances = [np.linalg.norm(trained - wanted) / np.linalg.norm(wanted) for wanted in (descent, regression)]
    return float(distances[0]), float(distances[1])


@torch.no_grad()
def _predictions(nets: NtkCnnNets, inputs: torch.Tensor) -> Float64:
    """kappa f of the only run, (n,)."""
    return nets.outputs(inputs[None])[0, :, 0].numpy().astype(np.float64)
