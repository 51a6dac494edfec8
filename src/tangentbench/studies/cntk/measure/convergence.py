"""Theorems 3.1 and 3.2 as measurements: wide networks tend to their kernel, before training and after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from tangentbench.datasets.choice import ImageChoice, Selection, select
from tangentbench.datasets.dataset import Inputs
from tangentbench.datasets.scaling import normed
from tangentbench.errors import UnknownName
from tangentbench.kernels.cntk import cntk
from tangentbench.kernels.fully_connected import ntk
from tangentbench.kernels.gradient_features import GradientKernel
from tangentbench.networks.ntk_cnn import NtkCnnNets, NtkCnnSpec
from tangentbench.studies.registry import Context, study
from tangentbench.training.batches import Examples
from tangentbench.training.loop import TrainingRecipe, TrainingRuns, train

Float64 = NDArray[np.float64]
INPUTS = ("unit_norm", "standardised")
KERNEL_ERROR, PREDICTION_ERROR = "kernel error", "prediction error"


@dataclass(frozen=True)
class Training:
    """Full-batch gradient descent on 1/2 sum (kappa f - y)^2 with a step of `step` over kappa^2 rho_max(H*)."""

    kappa: float
    step: float
    steps: int
    loss: str


@study("cntk_convergence")
def convergence(
    context: Context,
    *,
    architectures: Sequence[str],
    depths: Sequence[int],
    filter_size: int,
    gap_trains_first_and_last: bool,
    inputs: str,
    image_side: int,
    images: int,
    widths: Sequence[int],
    runs: int,
    trained_depth: int,
    trained_widths: Sequence[int],
    trained_runs: int,
    train_images: int,
    test_images: int,
    kappa: float,
    step: float,
    train_steps: int,
    loss: str,
) -> pd.DataFrame:
    """Relative distances at every `width`, a run is a `seed`.

    `kernel error`: ||H - H*||_F / ||H*||_F of the tangent kernel at initialisation (Theorem 3.1).
    `prediction error`: the distance on test images between kappa f after training and the exact kernel's prediction
    after as many steps of gradient descent, over the size of the latter; as training goes on that is kernel regression,
    and the distance to it is `to_regression` (Theorem 3.2).
    """
    if inputs not in INPUTS:
        raise UnknownName("way to prepare inputs", inputs, INPUTS)
    training = Training(kappa, step, train_steps, loss)
    few = prepared(context, image_side, inputs, train=images, test=images)
    fitted = prepared(context, image_side, inputs, train=train_images, test=test_images)
    rows: list[dict[str, Any]] = []
    for kind in architectures:
        trains = kind != "cnn_gap" or gap_trains_first_and_last
        for depth in depths:
            exact = exact_kernel(kind, depth, filter_size, trains, few.x_train, None)
            for width in tqdm(widths, desc=f"{kind}, depth {depth}", disable=None):
                shape = image_shape(few)
                architecture = NtkCnnSpec(kind, depth, width, shape, 1, filter_size, trains)
                for run in range(runs):
                    empirical = GradientKernel(NtkCnnNets(architecture, [run], context.seed))(few.x_train, None)
                    error = float(np.linalg.norm(empirical - exact) / np.linalg.norm(exact))
                    rows.append(row(KERNEL_ERROR, kind, depth, width, run, error))
        for width in tqdm(trained_widths, desc=f"{kind}, trained", disable=None):
            architecture = NtkCnnSpec(kind, trained_depth, width, image_shape(fitted), 1, filter_size, trains)
            for run in range(trained_runs):
                errors = prediction_errors(architecture, fitted, training, run, context.seed)
                rows.append(
                    {**row(PREDICTION_ERROR, kind, trained_depth, width, run, errors[0]), "to_regression": errors[1]}
                )
    return pd.DataFrame(rows)


def row(quantity: str, kind: str, depth: int, width: int, run: int, value: float) -> dict[str, Any]:
    return {"quantity": quantity, "architecture": kind, "depth": depth, "width": width, "seed": run, "value": value}


def image_shape(images: Selection) -> tuple[int, int, int]:
    height, width, channels = images.x_train.shape[1:]
    return height, width, channels


def prepared(context: Context, side: int, inputs: str, *, train: int, test: int) -> Selection:
    """A few images, averaged down to `side`, standardised and then of norm one where the theorems want it."""
    choice = ImageChoice(train, test, side, pixels="standardised", subset="random")
    chosen = select(context.dataset, choice, context.seed)
    if inputs != "unit_norm":
        return chosen
    return replace(chosen, x_train=normed(chosen.x_train), x_test=normed(chosen.x_test))


def exact_kernel(
    kind: str, depth: int, filter_size: int, train_first_last: bool, x1: Inputs, x2: Inputs | None
) -> Float64:
    """The limit of the tangent kernel of models/tangent_scaled.py's networks, in its scale."""
    if kind == "fc":
        flat = [None if x is None else x.reshape(len(x), -1).astype(np.float64) for x in (x1, x2)]
        assert flat[0] is not None
        # section 3 does not scale the input layer by the input's dimension
        return ntk(flat[0], flat[1], depth=depth) * flat[0].shape[1] / 2
    double = [None if x is None else x.astype(np.float64) for x in (x1, x2)]
    assert double[0] is not None
    return cntk(
        double[0],
        double[1],
        depth=depth,
        pooling="gap" if kind == "cnn_gap" else "flatten",
        train_first_last=train_first_last,
        filter=filter_size,
        progress=False,
    )


def prediction_errors(
    architecture: NtkCnnSpec, images: Selection, training: Training, run: int, seed: int
) -> tuple[float, float]:
    """Distances of a trained network to the exact kernel's descent after as many steps, and to its regression."""
    exact = (architecture.kind, architecture.depth, architecture.filter_size, architecture.train_first_last)
    targets = np.where(images.y_train < images.classes / 2, -1.0, 1.0)
    values, vectors = np.linalg.eigh(exact_kernel(*exact, images.x_train, None))
    cross = exact_kernel(*exact, images.x_test, images.x_train) @ vectors / values
    # a step shrinks the residual along an eigenvector by 1 - step * eigenvalue / largest
    learnt = 1.0 - (1.0 - training.step * values / values[-1]) ** training.steps
    descent, regression = cross @ (learnt * (vectors.T @ targets)), cross @ (vectors.T @ targets)
    nets = NtkCnnNets(architecture, [run], seed, kappa=training.kappa)
    # the loop's loss is a mean, the theorem's a sum
    learning_rate = training.step * len(targets) / (training.kappa**2 * float(values[-1]))
    train(
        nets,
        Examples(torch.from_numpy(images.x_train), torch.from_numpy(targets).float()[:, None]),
        TrainingRecipe(training.steps, len(targets), loss=training.loss),
        TrainingRuns([run], [learning_rate], seed),
        label=f"{architecture.kind}, depth {architecture.depth}, width {architecture.width}",
    )
    trained = predictions(nets, torch.from_numpy(images.x_test))
    distances = [np.linalg.norm(trained - wanted) / np.linalg.norm(wanted) for wanted in (descent, regression)]
    return float(distances[0]), float(distances[1])


@torch.no_grad()
def predictions(nets: NtkCnnNets, inputs: torch.Tensor) -> Float64:
    """kappa f of the only run, (n,)."""
    return nets.outputs(inputs[None])[0, :, 0].numpy().astype(np.float64)
