"""The paper's propositions about paths, gates and kernels, as identities."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from tangentbench.kernels.finite import empirical_ntk, gated_ntk
from tangentbench.kernels.path import (
    convolutional_path_kernel,
    label_fit,
    neural_path_kernel,
    path_value_derivatives,
    value_kernel,
    value_tangent_kernel,
)
from tangentbench.networks.architecture import Architecture, convolutional, fully_connected
from tangentbench.networks.gated import FROZEN, RELU, GatedNets, Gating, build, decoupled
from tangentbench.theory import paths as theory

INPUTS, WIDTH, DEPTH, EXAMPLES = 3, 4, 4, 5
SMALL = fully_connected((INPUTS,), WIDTH, DEPTH, 1, biases=False)


def examples(architecture: Architecture, count: int = EXAMPLES, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, *architecture.input_shape, generator=generator, dtype=torch.float64)


def parts(nets: GatedNets, x: torch.Tensor) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Weights and gates of the only run as theory.paths wants them."""
    weights = [nets.parameters[f"value_weight_{layer}"][0].detach().numpy() for layer in range(1, DEPTH + 1)]
    return weights, [gate[0].numpy() for gate in nets.gates(x[None])]


@pytest.fixture(params=[RELU, FROZEN], ids=["relu", "frozen"])
def net(request: pytest.FixtureRequest) -> GatedNets:
    return build(SMALL, request.param, [0], 7, dtype=torch.float64)


def test_proposition_2_1_output_is_npf_times_npv(net: GatedNets) -> None:
    x = examples(SMALL)
    weights, gates = parts(net, x)
    paths = theory.enumerate_paths(INPUTS, [WIDTH] * (DEPTH - 1))
    features = theory.path_features(x.numpy(), theory.path_activity(gates, paths), paths)
    outputs = net.outputs(x[None])[0, :, 0].detach().numpy()
    np.testing.assert_allclose(features @ theory.path_values(weights, paths), outputs, rtol=1e-12, atol=1e-15)


def test_lemma_2_1_path_kernel_is_sigma_times_lambda(net: GatedNets) -> None:
    x = examples(SMALL)
    _, gates = parts(net, x)
    paths = theory.enumerate_paths(INPUTS, [WIDTH] * (DEPTH - 1))
    features = theory.path_features(x.numpy(), theory.path_activity(gates, paths), paths)
    kernel = neural_path_kernel(x[None], net.gates(x[None]))[0].numpy()
    np.testing.assert_allclose(features @ features.T, kernel, rtol=1e-12, atol=1e-14)


def test_propositions_3_1_and_3_3_tangent_kernel_is_phi_v_phi(net: GatedNets) -> None:
    x = examples(SMALL)
    weights, gates = parts(net, x)
    paths = theory.enumerate_paths(INPUTS, [WIDTH] * (DEPTH - 1))
    features = theory.path_features(x.numpy(), theory.path_activity(gates, paths), paths)
    values = value_kernel(weights, paths)
    tangent = gated_ntk(net, 0, x).numpy()
    np.testing.assert_allclose(features @ values @ features.T, tangent, rtol=1e-11, atol=1e-14)
    smallest = np.linalg.eigvalsh(tangent)[0]
    bound = np.linalg.eigvalsh(features @ features.T)[0] * np.linalg.eigvalsh(values)[-1]
    assert smallest <= bound * (1 + 1e-9) + 1e-12
    layers = [torch.from_numpy(layer) for layer in weights]
    closed = value_tangent_kernel(x, layers, [torch.from_numpy(gate) for gate in gates])
    np.testing.assert_allclose(closed.numpy(), tangent, rtol=1e-11, atol=1e-14)


def test_path_value_derivatives_are_derivatives() -> None:
    generator = np.random.default_rng(0)
    weights = [generator.standard_normal(shape) for shape in ((2, 3), (3, 2), (2, 1))]
    paths = theory.enumerate_paths(2, [3, 2])
    derivatives = path_value_derivatives(weights, paths)
    position = 0
    for level, layer in enumerate(weights):
        for place in np.ndindex(layer.shape):
            moved = [np.array(one) for one in weights]
            moved[level][place] += 1.0
            # v is linear in each single weight, so a difference is the derivative
            difference = theory.path_values(moved, paths) - theory.path_values(weights, paths)
            np.testing.assert_allclose(derivatives[position], difference, atol=1e-12)
            position += 1
    assert position == len(derivatives)


def expected_kernel(architecture: Architecture, sigma: float, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """E[K] over all sign patterns of the value weights, by listing them, and the gates of the fixed features."""
    nets = build(architecture, FROZEN, [0], 3, dtype=torch.float64)
    size = nets.parameters.rows().shape[1]
    assert size <= 13, "2^13 networks are enough for a test"
    total = torch.zeros(len(x), len(x), dtype=torch.float64)
    # one sign of the output can be fixed: K does not change when all of a layer's signs flip
    patterns = list(itertools.product((-1.0, 1.0), repeat=size - 1))
    for pattern in patterns:
        nets.parameters.load(sigma * torch.tensor([[1.0, *pattern]], dtype=torch.float64))
        total += gated_ntk(nets, 0, x, ("value_",))
    return total / len(patterns), nets.gates(x.expand(1, *x.shape))  # type: ignore[return-value]


def test_theorem_d1_mean_for_a_fully_connected_network() -> None:
    """Exactly: E[K] = d sigma^(2(d-1)) H, here with all 2^9 sign patterns and d = 3."""
    architecture = fully_connected((2,), 2, 3, 1, biases=False)
    x = examples(architecture, 3)
    sigma = 0.7
    mean, gates = expected_kernel(architecture, sigma, x)
    path = neural_path_kernel(x[None], gates)[0]  # type: ignore[arg-type]
    torch.testing.assert_close(mean, 3 * sigma**4 * path, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(convolutional_path_kernel(architecture, x, [gate[0] for gate in gates]), path)


@pytest.mark.parametrize("pooled", [False, True])
def test_theorem_d1_mean_for_a_convolutional_network(pooled: bool) -> None:
    """The counterpart of H that convolutions have makes the same theorem true."""
    architecture = replace(convolutional((2, 2, 1), [1], [], 1, pooled=pooled, kernel=3), biases=False)
    x = examples(architecture, 3)
    sigma = 0.6
    mean, gates = expected_kernel(architecture, sigma, x)
    path = convolutional_path_kernel(architecture, x, [gate[0] for gate in gates])
    torch.testing.assert_close(mean, 2 * sigma**2 * path, rtol=1e-10, atol=1e-12)


def test_proposition_4_1_kernels_of_values_and_features_add_up() -> None:
    architecture = fully_connected((INPUTS,), WIDTH, DEPTH, 2)
    nets = build(architecture, decoupled(8.0, 1.0), [0, 1], 1, dtype=torch.float64)
    x = examples(architecture)
    both, values, features = (
        gated_ntk(nets, 1, x, prefixes) for prefixes in (("value_", "feature_"), ("value_",), ("feature_",))
    )
    torch.testing.assert_close(both, values + features)
    assert float(features.trace()) > 0


def test_blocks_and_outputs_agree() -> None:
    architecture = fully_connected((INPUTS,), WIDTH, 3, 2)
    nets = build(architecture, RELU, [0], 1, dtype=torch.float64)
    own = nets.parameters.of_run(0)

    def function(tensors: dict[str, torch.Tensor], example: torch.Tensor) -> torch.Tensor:
        hidden = example
        for layer in (1, 2, 3):
            hidden = hidden @ tensors[f"value_weight_{layer}"] + tensors[f"value_bias_{layer}"]
            hidden = torch.relu(hidden) if layer < 3 else hidden
        return hidden

    x = examples(architecture, 7)
    each = empirical_ntk(function, own, x, outputs="each")
    torch.testing.assert_close(empirical_ntk(function, own, x, memory=1), each.sum(0))
    torch.testing.assert_close(empirical_ntk(function, own, x, outputs="mean"), each.mean(0))
    torch.testing.assert_close(gated_ntk(nets, 0, x), each.sum(0))


def test_padded_gates_multiply_the_overlap() -> None:
    """Corollary C.1: H^(m) = m^(d-1) H."""
    x = examples(SMALL)
    times = 3
    gates = build(SMALL, Gating("frozen", padding=times), [0], 7, dtype=torch.float64).gates(x[None])
    wide = [torch.cat([gate] * times, dim=-1) for gate in gates]
    narrow = neural_path_kernel(x[None], gates)
    torch.testing.assert_close(neural_path_kernel(x[None], wide), times ** (DEPTH - 1) * narrow)


def test_label_fit_of_a_kernel_that_is_the_labels() -> None:
    labels = torch.tensor([1.0, -1.0, 1.0, 1.0], dtype=torch.float64)
    even = label_fit(torch.eye(4), labels)
    aligned = label_fit(torch.eye(4) + 5 * torch.outer(labels, labels), labels)
    assert float(even) == pytest.approx(16.0) and float(aligned) < 6.0
    assert float(label_fit(3 * torch.eye(4), labels, ridge=1.0)) == pytest.approx(8.0)
