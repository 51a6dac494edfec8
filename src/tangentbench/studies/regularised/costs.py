"""Work of the artifacts on L2-regularised features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tangentbench.studies.work import Work, work

FLOPS_A_WEIGHT = 6
"""Multiply and add, for the forward product, the backward one and the gradient."""
FIRST_LAYER_FLOPS = 4
"""The inputs need no gradient."""
ELEMENTWISE_FLOPS = 400
"""Activations and copies of a hidden value, as matrix-product operations that take as long (measured)."""
STEP_GFLOP = 0.008
"""What a step costs beside its products: calls of torch, losses, the optimiser's own start (measured)."""
GROUP_GFLOP = 0.005
"""The same for each width of a family."""
FLOAT64 = 2
OUTPUTS = 10
PIXELS = {"mnist": 785, "teacher": 51}


@work("regularised_fig5_1")
def forces(*, images: int, hidden_layers: int, width: int, steps: int, runs: int, **_: object) -> Work:
    """Descent in the span of the images: the calls outweigh the products."""
    weights = width * images + (hidden_layers - 1) * width**2
    a_step = STEP_GFLOP + GROUP_GFLOP + FLOAT64 * FLOPS_A_WEIGHT * images * weights / 1e9
    return Work({"network_gflop": runs * steps * a_step})


@work("regularised_fig5_2")
def plateau(
    *,
    panels: Sequence[str],
    images: Mapping[str, int],
    hidden_layers: int,
    widths: Sequence[int],
    penalties: Mapping[str, Sequence[float]],
    trials: Mapping[str, int],
    adam_steps: Mapping[str, int],
    descent_steps: Mapping[str, int],
    **_: object,
) -> Work:
    gflop, gib = 0.0, 0.0
    for panel in panels:
        each = len(penalties[panel]) * trials[panel]
        neurons = each * sum(widths)
        products = FIRST_LAYER_FLOPS * neurons * PIXELS[panel]
        products += FLOPS_A_WEIGHT * each * sum((hidden_layers - 1) * width**2 + width * OUTPUTS for width in widths)
        a_step = images[panel] * (products + ELEMENTWISE_FLOPS * hidden_layers * neurons) / 1e9
        a_step += STEP_GFLOP + GROUP_GFLOP * len(widths)
        gflop += (adam_steps[panel] + descent_steps[panel]) * a_step
        gib = max(gib, 4 * neurons * (4 * PIXELS[panel] + 6 * images[panel]) / 2**30)
    return Work({"network_gflop": gflop}, memory_gib=gib)
