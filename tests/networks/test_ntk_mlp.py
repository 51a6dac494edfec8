"""Wide networks in the tangent-kernel parametrisation: gradients, kernels and their limits."""

from typing import Any

import numpy as np
import pytest
import torch

from tangentbench.errors import TangentbenchError
from tangentbench.networks.ntk_mlp import TopLayers, draw
from tangentbench.theory.activations import activation
from tangentbench.theory.depth_kernels import kernel_at, square_matrix, unit_correlations, upper_entries
from tangentbench.theory.duals import normalised, scaled
from tangentbench.theory.layer_map import layer_map

RNG = np.random.default_rng(0)
INPUTS = RNG.standard_normal((5, 7))
INPUTS /= np.linalg.norm(INPUTS, axis=1, keepdims=True)
TARGETS = RNG.choice([-1.0, 1.0], size=(2, 5))


def small(sigma: Any, depth: Any, width: int = 6) -> Any:
    nets = draw(sigma, INPUTS, TARGETS, width, depth, range(2), seed=3)
    for name in ("first", "middle", "last", "inputs", "targets"):
        setattr(nets, name, getattr(nets, name).double())
    return nets


def by_autograd(nets: Any, run: Any) -> Any:
    """Outputs and the gradient of every weight, written down again from equation (1) with torch's own tanh."""
    weights = [nets.first[run].clone(), *nets.middle[:, run].clone(), nets.last[run].clone()]
    for matrix in weights:
        matrix.requires_grad_()
    hidden = nets.inputs
    for matrix in weights[:-1]:
        hidden = torch.tanh(hidden @ matrix) / nets.last.shape[-1] ** 0.5
    return hidden @ weights[-1], weights


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_kernel_and_step_are_those_of_autograd(depth: int) -> None:
    nets = small(activation("tanh"), depth)
    outputs, kernels = nets.outputs(), nets.tangent_kernel()
    expected = []
    for run in range(2):
        values, weights = by_autograd(nets, run)
        np.testing.assert_allclose(outputs[run], values.detach(), atol=1e-12)
        rows = [
            torch.cat([part.ravel() for part in torch.autograd.grad(value, weights, retain_graph=True)])
            for value in values
        ]
        jacobian = torch.stack(rows)
        np.testing.assert_allclose(kernels[run], jacobian @ jacobian.T, atol=1e-11)
        loss = 0.5 * (values - nets.targets[run]).square().sum()
        gradients = torch.autograd.grad(loss, weights)
        expected.append([(weight - 0.1 * slope).detach() for weight, slope in zip(weights, gradients, strict=True)])
    errors = nets.descend(torch.full((2,), 0.1, dtype=torch.float64))
    np.testing.assert_allclose(errors, outputs - nets.targets, atol=1e-12)
    for run in range(2):
        found = [nets.first[run], *nets.middle[:, run], nets.last[run]]
        for ours, theirs in zip(found, expected[run], strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_top_layer_descent_is_kernel_descent() -> None:
    nets = small(normalised(activation("relu")), 2, width=20)
    top, kernel = TopLayers.of(nets), nets.top_kernel()
    errors = [top.descend(torch.full((2,), 0.2, dtype=torch.float64)) for _ in range(3)]
    step = torch.eye(5, dtype=torch.float64) - 0.2 * kernel
    np.testing.assert_allclose(errors[2], torch.bmm(step @ step, errors[0][:, :, None])[:, :, 0], atol=1e-12)
    np.testing.assert_array_equal(nets.last, small(normalised(activation("relu")), 2, width=20).last)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("sigma", [normalised(activation("tanh")), scaled(activation("relu"))], ids=["tanh", "relu"])
def test_kernels_tend_to_the_infinite_ones(sigma: Any, depth: int) -> None:
    nets = draw(sigma, INPUTS, np.ones((4, 5)), 1500, depth, range(4), seed=1)
    limit = kernel_at(layer_map(sigma), upper_entries(unit_correlations(INPUTS)), depth, tangent=True)
    np.testing.assert_allclose(nets.top_kernel().mean(0), square_matrix(limit.top, 5), atol=0.08)
    diagonal = np.exp(limit.log_diagonal)
    np.testing.assert_allclose(nets.tangent_kernel().mean(0) / diagonal, square_matrix(limit.tangent, 5), atol=0.08)  # type: ignore[arg-type]


def test_one_hidden_layer_has_the_derivative_at_the_inputs_correlation() -> None:
    """rho sigma_hat'(rho), where equation (7) prints rho sigma_hat'(sigma_hat(rho))."""
    sigma, rho = scaled(activation("relu")), -0.8
    pair = np.array([[1.0, 0.0], [rho, np.sqrt(1 - rho**2)]])
    kernel = draw(sigma, pair, np.ones((8, 2)), 20000, 1, range(8), seed=2).tangent_kernel().mean(0)
    lower_layer = float(kernel[0, 1]) - float(sigma.dual(np.array(rho)))  # type: ignore[misc]
    assert lower_layer == pytest.approx(rho * float(sigma.dual_derivative(np.array(rho))), abs=0.02)  # type: ignore[misc]
    assert abs(lower_layer - rho * float(sigma.dual_derivative(sigma.dual(np.array(rho))))) > 0.1  # type: ignore[misc]


def test_runs_do_not_depend_on_each_other_and_activations_share_weights() -> None:
    both = draw(activation("tanh"), INPUTS, TARGETS, 6, 3, range(2), seed=3)
    alone = draw(activation("relu"), INPUTS, TARGETS[1:], 6, 3, [1], seed=3)
    np.testing.assert_array_equal(both.first[1], alone.first[0])
    np.testing.assert_array_equal(both.middle[:, 1], alone.middle[:, 0])
    assert both.first.dtype == torch.float32 and both.outputs().dtype == torch.float32


def test_an_activation_with_jumps_trains_its_top_layer_only() -> None:
    nets = draw(normalised(activation("step")), INPUTS, TARGETS, 6, 2, range(2), seed=0)
    TopLayers.of(nets).descend(torch.full((2,), 0.1))
    with pytest.raises(TangentbenchError, match="no derivative"):
        nets.descend(torch.full((2,), 0.1))
