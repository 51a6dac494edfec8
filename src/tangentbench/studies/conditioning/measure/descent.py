"""Our own figure: steps of gradient descent to a given loss against depth, for kernels and for finite networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from tangentbench.networks.ntk_mlp import NtkMlpNets, TopLayers, draw
from tangentbench.networks.stack import on_device
from tangentbench.studies.registry import Context, study
from tangentbench.theory.activations import Activation, activation_from_setting
from tangentbench.theory.conditioning import condition_excess
from tangentbench.theory.depth_kernels import kernel_at, square_matrix, unit_correlations, upper_entries
from tangentbench.theory.duals import normalised, scaled
from tangentbench.theory.kernel_descent import steps_from_condition_number, steps_to_ratio, theorem50_steps
from tangentbench.theory.layer_map import LayerMap, layer_map
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.engines.descent import descend

Setting = str | Mapping[str, Any]
Row = dict[str, Any]

TOP, ALL = "top layer", "all layers"


@dataclass(frozen=True)
class Task:
    """What every network learns: n unit vectors (n, d) and random signs (runs, n), to a share of the first loss."""

    inputs: np.ndarray
    targets: np.ndarray
    loss_ratio: float
    seed: int

    @property
    def correlations(self) -> np.ndarray:
        return unit_correlations(self.inputs)


@study("conditioning_training")
def steps_against_depth(
    context: Context,
    *,
    activations: Sequence[Setting],
    uncentred_activations: Sequence[Setting],
    depths: Sequence[int],
    images: int,
    runs: int,
    loss_ratio: float,
    width: int,
    top_width: int,
    top_steps: int,
    all_steps: int,
) -> pd.DataFrame:
    """One row a number: `activation`, `family`, `mode` (which layers learn), `method`, `depth`, `quantity`, `seed`.

    Methods: `kernel`, gradient descent with the infinitely wide network's kernel, and `network`, a finite one that
    really takes the steps, of length 1/lambda_max of its own kernel at the start. Quantities: `steps` until the loss
    is `loss_ratio` times the first one (empty where that takes more than the steps allowed), `condition excess`, and
    `predicted` and `theorem 50`, the steps that the infinite kernel's condition number allows for; `over predicted`
    (of a kernel: its slowest run, rounded up to whole steps) and `over kernel` are ratios of steps.
    """
    task = make_task(context, images, runs, loss_ratio)
    families = [
        *(("normalised", normalised(activation_from_setting(setting))) for setting in activations),
        *(("uncentred", scaled(activation_from_setting(setting))) for setting in uncentred_activations),
    ]
    rows: list[Row] = []
    with tqdm(total=len(families) * len(depths), desc="networks", disable=None) as bar:
        for family, sigma in families:
            layer = layer_map(sigma)
            for depth in depths:
                for mode, net_width, allowed in ((TOP, top_width, top_steps), (ALL, width, all_steps)):
                    found = kernel_rows(layer, depth, mode, task)
                    needed = {row["seed"]: row["value"] for row in found if row["quantity"] == "steps"}
                    predicted = next(row["value"] for row in found if row["quantity"] == "predicted")
                    nets = draw(sigma, task.inputs, task.targets, net_width, depth, range(runs), task.seed)
                    steps = network_steps(nets, mode, task, allowed, sigma, depth, context)
                    for run, value in enumerate(steps):
                        found.append(row_of("network", "steps", value, run))
                        found.append(row_of("network", "over predicted", value / predicted, run))
                        found.append(row_of("network", "over kernel", value / needed[run], run))
                    about = {"activation": sigma.name, "label": sigma.label, "family": family, "depth": depth}
                    rows += [{**about, "mode": mode, "predicted_steps": predicted, **row} for row in found]
                bar.update()
    return pd.DataFrame(rows).astype({"seed": "Int64"})


def row_of(method: str, quantity: str, value: float, seed: int | None = None) -> Row:
    return {"method": method, "quantity": quantity, "value": value, "seed": seed}


def make_task(context: Context, images: int, runs: int, loss_ratio: float) -> Task:
    """Random signs as targets: they ask for every direction of the kernel, also the slowest."""
    rng = np.random.default_rng(context.seed)
    chosen = np.sort(rng.permutation(len(context.dataset.x_train))[:images])
    inputs = context.dataset.x_train[chosen].reshape(images, -1).astype(np.float64)
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    return Task(inputs, rng.choice([-1.0, 1.0], size=(runs, images)), loss_ratio, context.seed)


def kernel_rows(layer: LayerMap, depth: int, mode: str, task: Task) -> list[Row]:
    n = len(task.inputs)
    kernels = kernel_at(layer, upper_entries(task.correlations), depth, tangent=mode == ALL)
    kernel = square_matrix(kernels.top if kernels.tangent is None else kernels.tangent, n)
    excess = condition_excess(kernel - np.eye(n))
    predicted = steps_from_condition_number(excess, task.loss_ratio)
    rows = [
        row_of("kernel", "condition excess", excess),
        row_of("kernel", "predicted", predicted),
        row_of("kernel", "theorem 50", theorem50_steps(excess, task.loss_ratio)),
    ]
    needed = [steps_to_ratio(kernel, targets, task.loss_ratio) for targets in task.targets]
    steps = [float("nan") if found is None else float(found) for found in needed]
    rows += [row_of("kernel", "steps", value, run) for run, value in enumerate(steps)]
    return [*rows, row_of("kernel", "over predicted", max(steps) / max(np.ceil(predicted), 1.0))]


def network_steps(
    nets: NtkMlpNets, mode: str, task: Task, allowed: int, sigma: Activation, depth: int, context: Context
) -> list[float]:
    """Each run's first step at which its loss is low enough; not a number where `allowed` steps were too few."""
    with on_device(nets):
        kernel = nets.top_kernel() if mode == TOP else nets.tangent_kernel()
        learning = TopLayers.of(nets) if mode == TOP else nets
    largest = torch.linalg.eigvalsh(kernel.cpu().double())[:, -1]
    name = f"{sigma.name}-{depth}-{mode.replace(' ', '-')}"
    identity = (allowed, task.loss_ratio, task.seed, tuple(nets.first.shape))
    squared = descend(
        learning,
        (1.0 / largest).float(),
        range(allowed + 1),
        label=f"{sigma.label}, depth {depth}, {mode}",
        stop_below=task.loss_ratio,
        checkpoint=checkpoint_in(context.work, name, *identity),
    )
    reached = squared <= task.loss_ratio * squared[0]
    return [float(np.argmax(run)) if run.any() else float("nan") for run in reached.T]
