"""The trainings behind the bounds study: which runs, on which task, until when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from tangentbench.datasets import Dataset
from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.networks.leaky_mlp import Shape, Task, draw, linear_velocity, task_of
from tangentbench.networks.leaky_mlp_device import outputs_on_device, velocity_on_device
from tangentbench.studies.registry import Context
from tangentbench.theory.nearly_linear import learning_time, root_stable_rank
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.engines.flow import FlowSolver, follow

Array = NDArray[np.float64]

LINEAR_TOLERANCE = 1e-8
"""Of the linear network's flow, which costs nothing."""


@dataclass(frozen=True)
class Run:
    """One trained network."""

    beta: float
    epsilon: float
    input_layer: str
    seed: int


def grid(betas: Sequence[float], epsilons: Sequence[float], input_layers: Sequence[str], runs: int) -> list[Run]:
    return [
        Run(float(beta), float(epsilon), layer, seed)
        for seed in range(runs)
        for layer in input_layers
        for beta in betas
        for epsilon in epsilons
    ]


def task_with_side(context: Context, side: int, samples: int) -> Task:
    """The task whose images have this side; a data set's name ends with it, as in mnist_binary_7x7.

    `samples` is what the settings (and with them the estimate) take for the size of its training set.
    """
    fitting: dict[str, Dataset] = {
        name: data for name, data in context.datasets.items() if name.endswith(f"_{side}x{side}")
    }
    if not fitting:
        raise UnknownName("image side", str(side), [name.rsplit("_", 1)[-1] for name in context.datasets])
    (dataset,) = fitting.values()
    if len(dataset.x_train) != samples:
        raise TangentbenchError(
            f"{dataset.name} has {len(dataset.x_train)} training examples but the setting `samples` says {samples}: "
            "make them agree in studies/bounds/catalogue.yaml"
        )
    return task_of(dataset)


def time_grid(end: float, points: int, first_share: float) -> Array:
    """Zero, then `points` - 1 times with equal ratios up to `end`."""
    return np.concatenate([[0.0], np.geomspace(first_share * end, end, points - 1)])


def horizon(runs: Sequence[Run], task: Task, depth: int, in_learning_times: float, fraction: float) -> float:
    """Where all runs of a figure end: a multiple of the linear learning time at the smallest beta."""
    return in_learning_times * learning_time(fraction, min(run.beta for run in runs), task.s, depth)


@dataclass(frozen=True, eq=False)
class Trained:
    """Weights (K, R, P) of the runs at `times` (K,)."""

    shape: Shape
    runs: Sequence[Run]
    times: Array
    weights: Array
    start: Array

    @property
    def epsilons(self) -> Array:
        return np.array([run.epsilon for run in self.runs])

    def rho(self, run: int) -> float:
        """At least one: rounding can put it a hair below at rank one."""
        return max(root_stable_rank(self.shape.split(self.start[run])[0]), 1.0)

    def outputs(self, run: int, x: torch.Tensor, epsilon: float | None = None) -> Array:
        """f(x) of one run at all times, (K, m); `epsilon` replaces the run's own nonlinearity."""
        own = self.runs[run].epsilon if epsilon is None else epsilon
        return outputs_on_device(self.shape, self.weights[:, run], np.full(len(self.times), own), x)


def train(
    context: Context,
    task: Task,
    runs: Sequence[Run],
    times: Array,
    *,
    depth: int,
    network: Mapping[str, Any],
    solver: str,
) -> Trained:
    """Follow the gradient flow of all runs as one batch."""
    shape, start = prepare(context, task, runs, depth, network)
    how = FlowSolver(solver, tolerance=float(network["tolerance"]), step=float(network["step"]))
    epsilons, velocity = np.array([run.epsilon for run in runs]), velocity_on_device(shape, task)
    name = f"depth {depth}, {task.x_train.shape[1]} inputs"
    identity = (shape, list(runs), how, times.tolist(), task.samples, context.seed)
    with tqdm(total=1.0, desc=name, bar_format="{l_bar}{bar}| [{elapsed}<{remaining}]", disable=None) as bar:
        flow = follow(
            lambda weights, which: velocity(weights, epsilons[which]),
            start,
            times,
            how,
            label=f"{name}, {len(runs)} runs",
            checkpoint=checkpoint_in(context.work, f"flow-depth{depth}-inputs{shape.dimension}", *identity),
            on_progress=lambda share: bar.update(share - bar.n),
        )
    return Trained(shape, runs, times, flow.weights, start)


def train_linear(
    context: Context, task: Task, runs: Sequence[Run], times: Array, *, depth: int, network: Mapping[str, Any]
) -> Trained:
    """The linear networks from the same initial weights, from sufficient statistics."""
    shape, start = prepare(context, task, runs, depth, network)
    flow = follow(
        lambda weights, _: linear_velocity(shape, weights, task.correlation, task.moment),
        start,
        times,
        FlowSolver(tolerance=LINEAR_TOLERANCE),
        label="the linear network",
    )
    return Trained(shape, runs, times, flow.weights, start)


def prepare(
    context: Context, task: Task, runs: Sequence[Run], depth: int, network: Mapping[str, Any]
) -> tuple[Shape, Array]:
    shape = Shape(depth, int(network["width"]), task.x_train.shape[1])
    start = np.stack([draw(shape, run.beta, run.input_layer, (context.seed, run.seed)) for run in runs])
    return shape, start
