"""One gated module in all its modes: gates, padding, initialisation, gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tangentbench.networks.architecture import Architecture, convolutional, fully_connected
from tangentbench.networks.gated import FROZEN, RELU, Gating, build, copy_features, decoupled, make_dependent

FC = fully_connected((6,), 7, 4, 3)
VCONV = convolutional((5, 5, 2), [3, 4], [6], 3, pooled=False)
GCONV = convolutional((5, 5, 2), [3, 4], [6], 3, pooled=True)
ARCHITECTURES = {"fc": FC, "vconv": VCONV, "gconv": GCONV}
GATINGS: dict[str, Any] = {"relu": RELU, "frozen": FROZEN, "decoupled": decoupled(8.0, 1.0)}


def inputs(architecture: Architecture, runs: int = 2, batch: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(runs, batch, *architecture.input_shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_relu_is_the_network_torch_would_build(name: str) -> None:
    architecture = ARCHITECTURES[name]
    nets = build(architecture, RELU, [0, 1], 0, dtype=torch.float64)
    x = inputs(architecture)
    for slot in range(2):
        weights = nets.parameters.of_run(slot)
        hidden = x[slot]
        for number in range(1, architecture.gated_layers + 2):
            weight, bias = weights[f"value_weight_{number}"], weights[f"value_bias_{number}"]
            if weight.dim() == 4:
                hidden = F.conv2d(hidden.permute(0, 3, 1, 2), weight, bias, padding=1).permute(0, 2, 3, 1)
            else:
                if hidden.dim() == 4:
                    hidden = hidden.mean(dim=(1, 2)) if name == "gconv" else hidden.flatten(1)
                hidden = F.linear(hidden, weight.T, bias)
            hidden = torch.relu(hidden) if number <= architecture.gated_layers else hidden
        torch.testing.assert_close(nets.outputs(x)[slot].detach(), hidden)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("gating", GATINGS)
def test_gradient_buffers_hold_the_derivatives(name: str, gating: str) -> None:
    """The buffers that layers write into against a central difference of the loss."""
    architecture = ARCHITECTURES[name]
    nets = build(architecture, GATINGS[gating], [0, 1], 0, dtype=torch.float64)
    x = inputs(architecture)
    nets.parameters.zero_gradients()
    nets.outputs(x).square().sum().backward()  # type: ignore[no-untyped-call]
    generator = torch.Generator().manual_seed(5)
    rows = nets.parameters.rows()
    direction = torch.randn(rows.shape, generator=generator, dtype=torch.float64)
    losses = []
    for sign in (1, -1):
        nets.parameters.load(rows + sign * 1e-6 * direction)
        losses.append(nets.outputs(x).detach().square().sum())
    slope = (losses[0] - losses[1]) / 2e-6
    gradient = torch.cat([t.grad.reshape(2, -1) for t in nets.parameters.tensors.values() if t.grad is not None], dim=1)
    torch.testing.assert_close((gradient * direction).sum(), slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_dependent_features_make_the_relu_network(name: str) -> None:
    """With Theta^F = Theta^V the gated network computes what the ReLU network does."""
    architecture = ARCHITECTURES[name]
    relu = build(architecture, RELU, [0, 1], 0, dtype=torch.float64)
    gated = build(architecture, FROZEN, [0, 1], 0, dtype=torch.float64)
    x = inputs(architecture)
    assert not torch.allclose(relu.outputs(x), gated.outputs(x))
    make_dependent(gated, [0])
    torch.testing.assert_close(gated.outputs(x)[0], relu.outputs(x)[0])
    copy_features(gated, relu.parameters, [0, 1])
    torch.testing.assert_close(gated.outputs(x), relu.outputs(x))
    for ours, theirs in zip(gated.gates(x), relu.gates(x), strict=True):
        assert torch.equal(ours, theirs)


def test_soft_gates_harden_as_beta_grows() -> None:
    soft = build(FC, Gating("trained", soft=True, beta=1e9), [0], 0, dtype=torch.float64)
    hard = build(FC, FROZEN, [0], 0, dtype=torch.float64)
    x = inputs(FC, runs=1)
    torch.testing.assert_close(soft.outputs(x), hard.outputs(x))
    notebook = build(FC, decoupled(4.0, 1.1), [0], 0, dtype=torch.float64)
    assert 1.0 < max(float(gate.max()) for gate in notebook.gates(x)) <= 1.1


def test_frozen_features_get_no_gradient_and_decoupled_ones_do() -> None:
    frozen, trained = (build(FC, gating, [0], 0) for gating in (FROZEN, decoupled(8.0, 1.0)))
    assert not any(name.startswith("feature") for name in frozen.parameters.tensors)
    trained.outputs(inputs(FC, runs=1).float()).sum().backward()  # type: ignore[no-untyped-call]
    assert all(float(t.grad.abs().sum()) > 0 for n, t in trained.parameters.tensors.items() if n.startswith("feature"))  # type: ignore[union-attr]


def test_padding_repeats_the_gates() -> None:
    """DGN^(m): with the padded weights block-constant and divided by m, the output is that of m = 1."""
    times = 3
    narrow = build(FC, FROZEN, [0], 0, dtype=torch.float64)
    wide = build(FC, Gating("frozen", padding=times), [0], 0, dtype=torch.float64)
    with torch.no_grad():
        for name, tensor in narrow.parameters.tensors.items():
            last_layer = name.endswith("_4")
            if "bias" in name:
                wide.parameters[name].copy_(tensor if last_layer else tensor.repeat(1, times))
            else:
                above = 1 if last_layer else times
                below = 1 if name.endswith("_1") else times
                wide.parameters[name].copy_(tensor.repeat(1, below, above) / below)
    x = inputs(FC, runs=1)
    torch.testing.assert_close(wide.outputs(x), narrow.outputs(x))


def test_glorot_uniform_has_keras_limits() -> None:
    nets = build(convolutional((32, 32, 3), [64], [256], 10, pooled=True), RELU, [0], 0)
    convolution, output = nets.parameters["value_weight_1"], nets.parameters["value_weight_3"]
    for weights, fans in ((convolution, 9 * (3 + 64)), (output, 256 + 10)):
        limit = (6 / fans) ** 0.5
        assert 0.98 * limit < float(weights.detach().abs().max()) <= limit
    assert float(nets.parameters["value_bias_1"].detach().abs().max()) == 0.0


def test_a_run_does_not_depend_on_its_neighbours() -> None:
    assert torch.equal(build(FC, FROZEN, [4, 2], 9).parameters.rows()[1:], build(FC, FROZEN, [2], 9).parameters.rows())
