"""Work of the nearly-linear study: gradients over all examples, and the networks' outputs at the recorded times."""

from __future__ import annotations

import numpy as np

from tangentbench.networks.mlp_shape import MlpShape
from tangentbench.studies.bounds.settings import Assumption, Atlas, Curves, Optimistic, Trainings
from tangentbench.studies.work import Work, work

_GRADIENTS_PER_TIME = 11.0
"""Of the adaptive solver on two layers, per unit of time: 157 until 1.2 learning times (14.2) at beta = 0.001."""
_DEEP_GRADIENTS = 40.0
"""Of one deeper run until its learning time, which it spends near the origin; 31 with three layers, 13 with four."""
_TYPICAL_S = 0.65
_OVERHEAD = 1.5
"""Elementwise steps beside the matrix products."""


def _trainings(settings: Trainings, passes_per_record: int = 1) -> Work:
    """Matrix products take the time; the memory is that of a run's outputs at all recorded times."""
    flops = 0.0
    networks = len(settings.betas) * len(settings.epsilons) * len(settings.input_layers) * settings.runs
    for side, depth in settings.cases:
        passes = 2 * _gradients(settings, depth) + passes_per_record * settings.times.points
        # the output layer, a vector, is left out
        products = sum(MlpShape(depth, settings.width, side * side).products[:-1])
        flops += _OVERHEAD * networks * 2.0 * settings.samples * products * passes
    outputs_gib = 8.0 * settings.samples * settings.times.points / 2**30
    inputs_gib = 4.0 * settings.samples * max(side for side, _ in settings.cases) ** 2 / 2**30
    return Work({"network_gflop": flops / 1e9}, memory_gib=4 * outputs_gib + 3 * inputs_gib)


def _gradients(settings: Trainings, depth: int) -> float:
    """That the solver takes for one network; a gradient costs two passes over the examples."""
    learning_time = np.log(9 * _TYPICAL_S / min(settings.betas) ** 2) / (2 * _TYPICAL_S)
    time = float(settings.times.end_in_learning_times * learning_time)
    if settings.solver.method == "descent":
        return time / settings.solver.learning_rate
    return _GRADIENTS_PER_TIME * time if depth == 2 else _DEEP_GRADIENTS


@work("bounds_fig6_1")
@work("bounds_fig6_2")
@work("bounds_fig6_3")
@work("bounds_fig6_4")
@work("bounds_fig6_5")
@work("bounds_fig6_6")
@work("bounds_fig6_7")
def curves(settings: Curves | Assumption) -> Work:
    return _trainings(settings)


@work("bounds_figD_1")
@work("bounds_figD_2")
def optimistic(settings: Optimistic) -> Work:
    """Three networks are evaluated at every recorded time, and all their outputs held together."""
    return _trainings(settings, passes_per_record=3)


@work("bounds_atlas")
def atlas(settings: Atlas) -> Work:
    """Closed forms: seconds at any scale, less than the job's start."""
    return Work()
