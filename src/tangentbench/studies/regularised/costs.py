"""Work of the artifacts on L2-regularised features."""

from __future__ import annotations

from tangentbench.networks.mlp_shape import MlpShape
from tangentbench.studies.regularised.settings import Forces, Plateau
from tangentbench.studies.work import Work, work

_FLOPS_PER_WEIGHT = 6
"""Multiply and add, for the forward product, the backward one and the gradient."""
_FIRST_LAYER_FLOPS = 4
"""The inputs need no gradient."""
_ELEMENTWISE_FLOPS = 400
"""Activations and copies of a hidden value, as matrix-product operations that take as long (measured)."""
_STEP_GFLOP = 0.008
"""What a step costs beside its products: calls of torch, losses, the optimiser's own start (measured)."""
_GROUP_GFLOP = 0.005
"""The same for each width of a family."""
_FLOAT64 = 2
_OUTPUTS = 10
_INPUTS = {"mnist": 785, "teacher": 51}
"""With the bias."""


@work("regularised_fig5_1")
def forces(settings: Forces) -> Work:
    """Descent in the span of the images, whose calls take longer than its products."""
    shape = MlpShape(settings.hidden_layers + 1, settings.width, settings.images, len(settings.digits))
    # the output layer, of a few neurons, is left out
    products = settings.images * sum(shape.products[:-1])
    step = _STEP_GFLOP + _GROUP_GFLOP + _FLOAT64 * _FLOPS_PER_WEIGHT * products / 1e9
    return Work({"network_gflop": settings.runs * settings.steps * step})


@work("regularised_fig5_2")
def plateau(settings: Plateau) -> Work:
    gflop, gib = 0.0, 0.0
    for name in settings.panels:
        panel, inputs = settings.panel(name), _INPUTS[name]
        networks = len(panel.penalties) * panel.trials
        flops = 0.0
        for width in settings.widths:
            first, *upper = MlpShape(settings.hidden_layers + 1, width, inputs, _OUTPUTS).products
            flops += _FIRST_LAYER_FLOPS * first + _FLOPS_PER_WEIGHT * sum(upper)
            flops += _ELEMENTWISE_FLOPS * settings.hidden_layers * width
        step = panel.images * networks * flops / 1e9 + _STEP_GFLOP + _GROUP_GFLOP * len(settings.widths)
        gflop += (panel.adam_steps + panel.descent_steps) * step
        neurons = networks * sum(settings.widths)
        gib = max(gib, 4 * neurons * (4 * inputs + 6 * panel.images) / 2**30)
    return Work({"network_gflop": gflop}, memory_gib=gib)
