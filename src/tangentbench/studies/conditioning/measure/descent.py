"""Our own figure: steps of gradient descent to a given loss against depth, for kernels and for finite networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from tangentbench.networks.ntk_mlp import TopLayers, draw
from tangentbench.networks.stack import on_device
from tangentbench.studies.conditioning.measure.families import activation_families
from tangentbench.studies.conditioning.settings import Descent, DescentNetworks
from tangentbench.studies.registry import Context, study
from tangentbench.theory.activations import Activation
from tangentbench.theory.conditioning import condition_excess
from tangentbench.theory.depth_kernels import kernel_at, square_matrix, unit_correlations, upper_entries
from tangentbench.theory.kernel_descent import steps_from_condition_number, steps_to_ratio, theorem50_steps
from tangentbench.theory.layer_map import LayerMap, layer_map
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.engines.descent import descend

Row = dict[str, Any]

TOP, ALL = "top layer", "all layers"


@dataclass(frozen=True)
class _Task:
    """What every network learns: n unit vectors (n, d) and random signs (runs, n), to a share of the first loss."""

    inputs: np.ndarray
    targets: np.ndarray
    loss_ratio: float
    seed: int

    @property
    def correlations(self) -> np.ndarray:
        return unit_correlations(self.inputs)


@study("conditioning_training")
def steps_against_depth(context: Context, settings: Descent) -> pd.DataFrame:
    """One row per number: `activation`, `family`, `mode` (which layers learn), `method`, `depth`, `quantity`, `seed`.

    Methods: `kernel`, gradient descent with the infinitely wide network's kernel, and `network`, descent of a finite
    one, with learning rate 1/lambda_max of its own kernel at the start. Quantities: `steps` until the loss is
    `loss_ratio` times the first one (empty where that takes more than `max_steps`), `condition excess`, and
    `predicted` and `theorem 50`, the steps that the infinite kernel's condition number allows for; `over predicted`
    (of a kernel: its slowest run, rounded up to whole steps) and `over kernel` are ratios of steps.
    """
    task = _task(context, settings)
    families = activation_families(settings)
    rows: list[Row] = []
    with tqdm(total=len(families) * len(settings.depths), desc="networks", disable=None) as bar:
        for family, sigma in families:
            layer = layer_map(sigma)
            for depth in settings.depths:
                for mode, networks in ((TOP, settings.top_layer), (ALL, settings.all_layers)):
                    found, predicted = _kernel_rows(layer, depth, mode, task)
                    steps = _Descent(task, sigma, depth, mode, networks).steps(context)
                    found += _network_rows(steps, found, predicted)
                    about = {"activation": sigma.name, "label": sigma.label, "family": family, "depth": depth}
                    rows += [{**about, "mode": mode, "predicted_steps": predicted, **row} for row in found]
                bar.update()
    return pd.DataFrame(rows).astype({"seed": "Int64"})


def _row(method: str, quantity: str, value: float, seed: int | None = None) -> Row:
    return {"method": method, "quantity": quantity, "value": value, "seed": seed}


def _task(context: Context, settings: Descent) -> _Task:
    """Random signs as targets: they have a part in every direction of the kernel, also in the slowest."""
    images, rng = settings.images, np.random.default_rng(context.seed)
    chosen = np.sort(rng.permutation(len(context.dataset.x_train))[:images])
    inputs = context.dataset.x_train[chosen].reshape(images, -1).astype(np.float64)
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    return _Task(inputs, rng.choice([-1.0, 1.0], size=(settings.runs, images)), settings.loss_ratio, context.seed)


def _kernel_rows(layer: LayerMap, depth: int, mode: str, task: _Task) -> tuple[list[Row], float]:
    """The rows of the infinite kernel, and the number of steps that its condition number allows for."""
    n = len(task.inputs)
    kernels = kernel_at(layer, upper_entries(task.correlations), depth, tangent=mode == ALL)
    kernel = square_matrix(kernels.top if kernels.tangent is None else kernels.tangent, n)
    excess = condition_excess(kernel - np.eye(n))
    predicted = steps_from_condition_number(excess, task.loss_ratio)
    rows = [
        _row("kernel", "condition excess", excess),
        _row("kernel", "predicted", predicted),
        _row("kernel", "theorem 50", theorem50_steps(excess, task.loss_ratio)),
    ]
    needed = [steps_to_ratio(kernel, targets, task.loss_ratio) for targets in task.targets]
    steps = [float("nan") if found is None else float(found) for found in needed]
    rows += [_row("kernel", "steps", value, run) for run, value in enumerate(steps)]
    return [*rows, _row("kernel", "over predicted", max(steps) / max(np.ceil(predicted), 1.0))], predicted


def _network_rows(steps: Sequence[float], kernel_rows: Sequence[Row], predicted: float) -> list[Row]:
    kernel_steps = {row["seed"]: row["value"] for row in kernel_rows if row["quantity"] == "steps"}
    return [
        row
        for run, value in enumerate(steps)
        for row in (
            _row("network", "steps", value, run),
            _row("network", "over predicted", value / predicted, run),
            _row("network", "over kernel", value / kernel_steps[run], run),
        )
    ]


@dataclass(frozen=True)
class _Descent:
    """Gradient descent of finite networks with one activation and depth; `mode` says which layers learn."""

    task: _Task
    sigma: Activation
    depth: int
    mode: str
    networks: DescentNetworks

    def steps(self, context: Context) -> list[float]:
        """Each run's first step at which its loss is low enough; not a number where `max_steps` were too few."""
        task, sigma, allowed = self.task, self.sigma, self.networks.max_steps
        runs = range(len(task.targets))
        nets = draw(sigma, task.inputs, task.targets, self.networks.width, self.depth, runs, task.seed)
        with on_device(nets):
            kernel = nets.top_kernel() if self.mode == TOP else nets.tangent_kernel()
            learning = TopLayers.of(nets) if self.mode == TOP else nets
        largest = torch.linalg.eigvalsh(kernel.cpu().double())[:, -1]
        squared = descend(
            learning,
            (1.0 / largest).float(),
            range(allowed + 1),
            label=f"{sigma.label}, depth {self.depth}, {self.mode}",
            stop_below=task.loss_ratio,
            checkpoint=checkpoint_in(context.work, f"{sigma.name}-{self.depth}-{self.mode.replace(' ', '-')}"),
        )
        reached = squared <= task.loss_ratio * squared[0]
        return [float(np.argmax(run)) if run.any() else float("nan") for run in reached.T]
