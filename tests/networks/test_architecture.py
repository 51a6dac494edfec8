"""What a description of a network says of its parameters and operations, against the network itself."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tangentbench.networks.architecture import Architecture, Conv, Dense, convolutional, fully_connected
from tangentbench.networks.gated import RELU, build

ARCHITECTURES = {
    "fully connected": fully_connected((5, 4, 1), 7, 4, 3),
    "without biases": fully_connected((6,), 7, 2, 1, biases=False),
    "pooled": convolutional((8, 6, 3), (4, 5), (9,), 3, pooled=True),
    "strided": convolutional((9, 9, 3), (4, 5), (9, 2), 3, pooled=False, stride=2),
    "valid": convolutional((8, 8, 2), (4,), (), 3, pooled=False, kernel=5, padding="valid"),
}
every = pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)


@every
def test_parameters_are_those_that_are_built(architecture: Architecture) -> None:
    assert architecture.parameter_count == build(architecture, RELU, [0], 0).parameters.rows().shape[1]


@every
def test_multiply_adds_are_those_that_torch_counts(architecture: Architecture) -> None:
    """A multiply-add is two operations; torch counts matrix products and convolutions."""
    nets = build(architecture, RELU, [0], 0)
    examples = 3
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        nets.outputs(torch.zeros(1, examples, *architecture.input_shape))
    assert counter.get_total_flops() == 2 * examples * architecture.multiply_adds()


@every
def test_kinds_of_layers_add_up(architecture: Architecture) -> None:
    dense, convolutions = architecture.multiply_adds(Dense), architecture.multiply_adds(Conv)
    assert dense + convolutions == architecture.multiply_adds()
    assert dense > 0
