"""Gradient flow of a batch of runs: an adaptive solver, each run with its own step, and plain descent beside it.

The adaptive solver is the pair of Dormand and Prince of order 5(4) with its interpolant. It needs some hundred
gradients where descent at step 0.001 needs twenty thousand, and lies nearer to the flow.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import RK45

from tangentbench.errors import Diverged, UnknownName
from tangentbench.training.checkpoint import Checkpoint

Array = NDArray[np.float64]
Velocity = Callable[[Array, NDArray[np.intp]], Array]
"""dw/dt, (A, P), of weights (A, P) that belong to the runs with these numbers (A,)."""

SAFETY, SHRINK, GROW = 0.9, 0.2, 5.0
SMALLEST_STEP = 1e-13
"""Of the whole time; a step below it can only mean that the flow leaves the numbers."""


@dataclass(frozen=True)
class FlowSolver:
    """How the flow is followed: `adaptive` to a relative local error of `tolerance`, or `descent` at `step`."""

    method: str = "adaptive"
    tolerance: float = 1e-5
    step: float = 0.001

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UnknownName("flow solver", self.method, METHODS)


@dataclass(frozen=True, eq=False)
class FlowResult:
    """Weights (K, R, P) at the times asked for, and how many gradients of one run they took."""

    weights: Array
    gradients: int


def follow(
    velocity: Velocity,
    start: Array,
    times: Array,
    solver: FlowSolver,
    *,
    label: str,
    checkpoint: Checkpoint | None = None,
    on_progress: Callable[[float], None] = lambda share: None,
) -> FlowResult:
    """The runs' weights at `times` (K,), ascending from 0 on, from the weights `start` (R, P).

    `on_progress` is called with the share of the time that every run has covered. Raises Diverged, naming `label`.
    """
    run: _AdaptiveSteps | _FixedSteps = METHODS[solver.method](velocity, start, times, solver, label)
    if checkpoint and (found := checkpoint.load()):
        run.steps, run.recorded = found.facts["steps"], found.arrays.pop("recorded")
        run.load_state(found.arrays)
    saved = clock.monotonic()
    while not run.done:
        run.advance()
        on_progress(run.share)
        if checkpoint and clock.monotonic() - saved >= checkpoint.every_seconds:
            checkpoint.save({"steps": run.steps}, {"recorded": run.recorded, **run.state()})
            saved = clock.monotonic()
    return FlowResult(run.recorded, run.gradients)


class _AdaptiveSteps:
    """Dormand-Prince steps; each run has its own time and step, and is set aside once it has passed the last time."""

    def __init__(self, velocity: Velocity, start: Array, times: Array, solver: FlowSolver, label: str) -> None:
        self.velocity, self.times, self.tolerance, self.label = velocity, times, solver.tolerance, label
        self.weights = start.copy()
        self.slope = velocity(self.weights, np.arange(len(start)))
        self.time = np.zeros(len(start))
        speed = np.linalg.norm(self.slope, axis=1) / np.linalg.norm(start, axis=1)
        self.step = np.minimum(times[-1], 0.01 / np.maximum(speed, 1e-300))
        self.recorded = np.full((len(times), *start.shape), np.nan)
        self.recorded[times == 0] = start
        self.steps, self.gradients = 0, len(start)

    @property
    def done(self) -> bool:
        return bool((self.time >= self.times[-1]).all())

    @property
    def share(self) -> float:
        return float(self.time.min() / self.times[-1])

    def state(self) -> dict[str, np.ndarray]:
        return {
            "weights": self.weights,
            "slope": self.slope,
            "time": self.time,
            "step": self.step,
            "gradients": np.array(self.gradients),
        }

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        self.weights, self.slope = state["weights"], state["slope"]
        self.time, self.step, self.gradients = state["time"], state["step"], int(state["gradients"])

    def advance(self) -> None:
        runs = np.flatnonzero(self.time < self.times[-1])
        weights, time = self.weights[runs], self.time[runs]
        last = self.step[runs] >= self.times[-1] - time
        step = np.where(last, self.times[-1] - time, self.step[runs])
        slopes = np.empty((RK45.n_stages + 1, *weights.shape))
        slopes[0] = self.slope[runs]
        for stage in range(1, RK45.n_stages):
            moved = np.tensordot(RK45.A[stage, :stage], slopes[:stage], axes=1)
            slopes[stage] = self.velocity(weights + step[:, None] * moved, runs)
        after = weights + step[:, None] * np.tensordot(RK45.B, slopes[:-1], axes=1)
        slopes[-1] = self.velocity(after, runs)
        self.steps += 1
        self.gradients += RK45.n_stages * len(runs)
        missed = step * np.linalg.norm(np.tensordot(RK45.E, slopes, axes=1), axis=1)
        error = missed / np.linalg.norm(after, axis=1) / self.tolerance
        good = error <= 1
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.clip(SAFETY * error ** (-1 / 5), SHRINK, GROW)
        factor = np.where(np.isfinite(error), factor, SHRINK)
        self.step[runs] = np.where(good & last, self.step[runs], step * np.where(good, factor, np.minimum(factor, 1.0)))
        if (self.step[runs] < SMALLEST_STEP * self.times[-1]).any():
            raise Diverged("the flow", self.steps, self.label)
        for position in np.flatnonzero(good):
            run = runs[position]
            ends = self.times[-1] if last[position] else time[position] + step[position]
            inside = np.flatnonzero((self.times > time[position]) & (self.times <= ends))
            if len(inside):
                part = (self.times[inside] - time[position]) / step[position]
                powers = part[:, None] ** np.arange(1, RK45.P.shape[1] + 1)
                moved = powers @ (RK45.P.T @ slopes[:, position])
                self.recorded[inside, run] = weights[position] + step[position] * moved
            self.weights[run], self.slope[run], self.time[run] = after[position], slopes[-1, position], ends


class _FixedSteps:
    """Gradient descent at a fixed step, as the thesis trains; a time counts as its nearest whole number of steps."""

    def __init__(self, velocity: Velocity, start: Array, times: Array, solver: FlowSolver, label: str) -> None:
        self.velocity, self.step, self.label = velocity, solver.step, label
        self.weights, self.runs = start.copy(), np.arange(len(start))
        self.record_at = np.round(times / solver.step).astype(int)
        self.recorded = np.full((len(times), *start.shape), np.nan)
        self.steps = 0
        self.record()

    @property
    def gradients(self) -> int:
        return self.steps * len(self.runs)

    @property
    def done(self) -> bool:
        return bool(self.steps >= self.record_at[-1])

    @property
    def share(self) -> float:
        return self.steps / max(int(self.record_at[-1]), 1)

    def state(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        self.weights = state["weights"]

    def record(self) -> None:
        self.recorded[self.record_at == self.steps] = self.weights

    def advance(self) -> None:
        self.weights += self.step * self.velocity(self.weights, self.runs)
        self.steps += 1
        if not np.isfinite(self.weights).all():
            raise Diverged("the weights", self.steps, self.label)
        self.record()


METHODS: dict[str, type[_AdaptiveSteps] | type[_FixedSteps]] = {"adaptive": _AdaptiveSteps, "descent": _FixedSteps}
