"""Work of the nearly-linear study: gradients over all examples, and the networks' outputs at the recorded times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tangentbench.studies.work import Work, work

GRADIENTS_PER_TIME = 11.0
"""Of the adaptive solver on two layers, a unit of time: 157 until 1.2 learning times (14.2) at beta = 0.001."""
DEEP_GRADIENTS = 40.0
"""Of one deeper run until its learning time, which it spends near the origin; 31 with three layers, 13 with four."""
TYPICAL_S = 0.65
OVERHEAD = 1.5
"""Elementwise steps beside the matrix products."""


def flops_of_pass(samples: int, side: int, width: int, depth: int) -> float:
    """Of one forward pass of one run over all examples."""
    return 2.0 * samples * width * (side * side + (depth - 2) * width)


def trainings(
    *,
    sides: Sequence[int],
    betas: Sequence[float],
    epsilons: Sequence[float],
    depths: Sequence[int],
    input_layers: Sequence[str],
    time_in_learning_times: float,
    time_points: int,
    runs: int,
    network: Mapping[str, Any],
    solver: str,
    samples: int,
    forward_per_record: int = 1,
) -> Work:
    """Seconds are in the products; the memory is the outputs of a run at all recorded times."""
    flops = 0.0
    curves = len(betas) * len(epsilons) * len(input_layers) * runs
    for side in sides:
        for depth in depths:
            time = time_in_learning_times * np.log(9 * TYPICAL_S / min(betas) ** 2) / (2 * TYPICAL_S)
            gradients = GRADIENTS_PER_TIME * time if depth == 2 else DEEP_GRADIENTS
            if solver == "descent":
                gradients = time / float(network["step"])
            one = flops_of_pass(samples, side, int(network["width"]), depth)
            flops += OVERHEAD * curves * one * (2 * gradients + forward_per_record * time_points)
    outputs_gib = 8.0 * samples * time_points / 2**30
    inputs_gib = 4.0 * samples * max(sides) ** 2 / 2**30
    return Work({"network_gflop": flops / 1e9}, memory_gib=4 * outputs_gib + 3 * inputs_gib)


NEEDED = (
    "sides", "betas", "epsilons", "depths", "input_layers", "time_in_learning_times", "time_points", "runs", "network",
    "solver", "samples",
)  # fmt: skip


@work("bounds_fig6_1")
@work("bounds_fig6_2")
@work("bounds_fig6_3")
@work("bounds_fig6_4")
@work("bounds_fig6_5")
@work("bounds_fig6_6")
@work("bounds_fig6_7")
def curves(**settings: Any) -> Work:
    return trainings(**{name: settings[name] for name in NEEDED})


@work("bounds_figD_1")
@work("bounds_figD_2")
def optimistic(**settings: Any) -> Work:
    """Three networks are evaluated at every recorded time, and all their outputs held together."""
    return trainings(**{name: settings[name] for name in NEEDED}, forward_per_record=3)


@work("bounds_atlas")
def atlas(**_: object) -> Work:
    """Closed forms: seconds at any scale, which the job's start outweighs."""
    return Work()
