"""The trainings behind the bounds study: which runs, on which task, until when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.networks.leaky_mlp import RegressionTask, draw, linear_velocity, task_of
from tangentbench.networks.leaky_mlp_device import outputs_on_device, velocity_on_device
from tangentbench.networks.mlp_shape import MlpShape
from tangentbench.studies.bounds.settings import Solver, Times, Trainings
from tangentbench.studies.registry import Context
from tangentbench.theory.nearly_linear import learning_time, root_stable_rank
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.engines.flow import FlowSolver, follow

Array = NDArray[np.float64]

_LINEAR_TOLERANCE = 1e-8
"""Of the linear network's flow, whose gradients cost next to nothing."""


@dataclass(frozen=True)
class Run:
    """One trained network."""

    beta: float
    epsilon: float
    input_layer: str
    seed: int


@dataclass(frozen=True, eq=False)
class Family:
    """Networks of one shape on one task, and when they are looked at."""

    task: RegressionTask
    shape: MlpShape
    runs: Sequence[Run]
    start: Array
    """Initial weights, (R, P)."""
    times: Array
    """(K,), from 0 on."""

    @classmethod
    def of(cls, settings: Trainings, task: RegressionTask, depth: int, seed: int) -> Family:
        runs = _runs(settings)
        shape = MlpShape(depth, settings.width, task.x_train.shape[1])
        start = np.stack([draw(shape, run.beta, run.input_layer, (seed, run.seed)) for run in runs])
        return cls(task, shape, runs, start, _time_grid(settings.times, min(settings.betas), task.s, depth))

    @property
    def epsilons(self) -> Array:
        return np.array([run.epsilon for run in self.runs])

    def rho(self, run: int) -> float:
        """Root of the input layer's stable rank at the start; rounding could put it below one at rank one."""
        return max(root_stable_rank(self.shape.split(self.start[run])[0]), 1.0)


@dataclass(frozen=True, eq=False)
class TrainedRuns:
    """Weights (K, R, P) of a family at its times."""

    family: Family
    weights: Array

    def outputs(self, run: int, x: torch.Tensor, epsilon: float | None = None) -> Array:
        """f(x) of one run at all times, (K, m); `epsilon` replaces the run's own nonlinearity."""
        own = self.family.runs[run].epsilon if epsilon is None else epsilon
        return outputs_on_device(self.family.shape, self.weights[:, run], np.full(len(self.weights), own), x)


def _runs(settings: Trainings) -> list[Run]:
    return [
        Run(beta, epsilon, layer, seed)
        for seed in range(settings.runs)
        for layer in settings.input_layers
        for beta in settings.betas
        for epsilon in settings.epsilons
    ]


def _time_grid(times: Times, smallest_beta: float, s: float, depth: int) -> Array:
    end = times.end_in_learning_times * learning_time(times.learnt_fraction, smallest_beta, s, depth)
    return np.concatenate([[0.0], np.geomspace(times.first_share * end, end, times.points - 1)])


def task_with_side(context: Context, side: int, samples: int) -> RegressionTask:
    """The task whose images have this side; a data set's name ends with it, as in mnist_binary_7x7."""
    fitting = {name: data for name, data in context.datasets.items() if name.endswith(f"_{side}x{side}")}
    if not fitting:
        raise UnknownName("image side", str(side), [name.rsplit("_", 1)[-1] for name in context.datasets])
    (dataset,) = fitting.values()
    if len(dataset.x_train) != samples:
        raise TangentbenchError(
            f"{dataset.name} has {len(dataset.x_train)} training examples but the setting `samples` says {samples}: "
            "make them agree in studies/bounds/catalogue.yaml"
        )
    return task_of(dataset)


def train(context: Context, family: Family, solver: Solver) -> TrainedRuns:
    """Follow the gradient flow of all runs as one batch."""
    shape, task = family.shape, family.task
    how = FlowSolver(solver.method, tolerance=solver.tolerance, step=solver.learning_rate)
    epsilons, velocity = family.epsilons, velocity_on_device(shape, task)
    name = f"depth {shape.depth}, {shape.inputs} inputs"
    with tqdm(total=1.0, desc=name, bar_format="{l_bar}{bar}| [{elapsed}<{remaining}]", disable=None) as bar:
        flow = follow(
            lambda weights, which: velocity(weights, epsilons[which]),
            family.start,
            family.times,
            how,
            label=f"{name}, {len(family.runs)} runs",
            checkpoint=checkpoint_in(context.work, f"flow-depth{shape.depth}-inputs{shape.inputs}"),
            on_progress=lambda share: bar.update(share - bar.n),
        )
    return TrainedRuns(family, flow.weights)


def train_linear(family: Family) -> TrainedRuns:
    """The linear networks (epsilon = 0) from the same initial weights, from sufficient statistics."""
    task = family.task
    flow = follow(
        lambda weights, _: linear_velocity(family.shape, weights, task.correlation, task.moment),
        family.start,
        family.times,
        FlowSolver(tolerance=_LINEAR_TOLERANCE),
        label="the linear network",
    )
    return TrainedRuns(family, flow.weights)
