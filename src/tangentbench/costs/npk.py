"""Work of the neural-path-kernel study's artifacts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tangentbench.costs import Work, work
from tangentbench.theory.memorisation import largest_eigenvalue, smallest_eigenvalue

FLOPS_A_WEIGHT = 6
"""Multiply and add, for the forward product, the backward one and the gradient."""
ELEMENTWISE_FLOPS = 230
"""Gates and copies of a hidden value, as matrix-product operations that take as long (measured at width 25)."""
BYTES = {"float32": 4, "float64": 8}


@work("npk_fig1")
@work("npk_fig5")
def closed_forms(**_: object) -> Work:
    """Eighteen paths, seven matrices of side 200: the job's start outweighs them."""
    return Work()


@work("npk_fig6")
def memorisation(
    *,
    widths: Sequence[int],
    depths: Sequence[int],
    examples: int,
    gate_probability: float,
    runs: int,
    step: float,
    steps: int,
    stop_below: float,
    precision: str,
    **_: object,
) -> Work:
    flops, numbers = 0.0, 0
    for width in widths:
        for depth in depths:
            layers = depth - 1
            taken = steps
            if width >= examples:
                taken = min(steps, ideal_steps(examples, depth, gate_probability, step, stop_below))
            a_step = runs * examples * layers * width * (FLOPS_A_WEIGHT * width + ELEMENTWISE_FLOPS)
            flops += taken * a_step * BYTES[precision] / BYTES["float32"]
            # the weights, and gates, hidden values and derivatives of every layer
            numbers = max(numbers, runs * layers * width * (width + 3 * examples))
    gib = numbers * BYTES[precision] / 2**30
    return Work({"dense_gflop": flops / 1e9}, memory_gib=2 * gib, disk_gib=gib)


def ideal_steps(examples: int, depth: int, gate_probability: float, step: float, ratio: float) -> int:
    """Steps until the slowest direction of the ideal kernel has shrunk the squared error to `ratio`."""
    slowest = smallest_eigenvalue(depth, gate_probability) / largest_eigenvalue(examples, depth, gate_probability)
    return math.ceil(math.log(ratio) / (2 * math.log1p(-step * slowest)))
