"""Tangent kernels of finite networks: both roads, their cost, and the limit of many channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from images import images, relative_error
from torch.utils.flop_counter import FlopCounterMode

from tangentbench.errors import UnknownName
from tangentbench.kernels import empirical_ntk, exact, myrtle, resnet50
from tangentbench.kernels.finite import costs, finite_ntk, initial_weights
from tangentbench.kernels.network import forward_operations, through

SHAPE = (8, 8, 3)


def network_and_inputs(network: Any, count: int = 4) -> Any:
    weights = {name: one.double() for name, one in initial_weights(network, SHAPE, 0).items()}
    batch = torch.from_numpy(images(count, 8, 8).transpose(0, 3, 1, 2).copy())
    return (lambda tensors, x: through(network, tensors, x)), weights, batch


@pytest.mark.parametrize("network", [myrtle(channels=4, outputs=2), resnet50((1, 1), width=2, outputs=2)])
def test_both_roads_give_the_kernel_of_plain_gradients(network: Any) -> None:
    function, weights, batch = network_and_inputs(network)
    plain = empirical_ntk(lambda tensors, x: function(tensors, x[None])[0], weights, batch, outputs="mean")
    for method in ("contraction", "products"):
        square, cost = finite_ntk(function, weights, batch, forward_operations=1e6, method=method)
        assert cost.method == method
        assert relative_error(square.numpy(), plain.numpy()) < 1e-12
        part, _ = finite_ntk(function, weights, batch[:2], batch[1:], forward_operations=1e6, method=method)
        assert relative_error(part.numpy(), plain[:2, 1:].numpy()) < 1e-12


def test_blocks_that_fit_memory_change_nothing() -> None:
    function, weights, batch = network_and_inputs(myrtle(channels=4), 5)
    size = sum(one.numel() for one in weights.values())
    whole, _ = finite_ntk(function, weights, batch, forward_operations=1.0, method="contraction")
    cut, _ = finite_ntk(function, weights, batch, forward_operations=1.0, method="contraction", memory=2 * 2 * size * 8)
    assert relative_error(cut.numpy(), whole.numpy()) < 1e-12


def test_the_cheaper_road_is_taken() -> None:
    """Shared weights make contraction cheap; gradients beyond memory and few operations a weight make it dear."""
    assert costs(100, 100, 1, weights=10**5, forward=1e8, memory=2**30)[0].method == "contraction"
    assert costs(100, 100, 1, weights=10**9, forward=1e8, memory=2**30)[0].method == "products"
    with pytest.raises(UnknownName, match="by_magic"):
        function, weights, batch = network_and_inputs(myrtle(channels=2))
        finite_ntk(function, weights, batch, forward_operations=1.0, method="by_magic")


def test_the_mean_over_starts_is_the_analytic_kernel() -> None:
    """Within three standard errors of the mean; a wrong factor of two would be ten away."""
    network = myrtle(channels=48, outputs=2)
    batch = torch.from_numpy(images(2, 8, 8).transpose(0, 3, 1, 2).copy()).float()
    values = []
    for seed in range(24):
        weights = initial_weights(network, SHAPE, seed)
        kernel, _ = finite_ntk(lambda tensors, x: through(network, tensors, x), weights, batch, forward_operations=1e6)
        values.append(kernel.numpy())
    limit = exact(images(2, 8, 8), network=network)
    error = np.std(values, axis=0, ddof=1) / np.sqrt(len(values))
    assert (np.abs(np.mean(values, axis=0) - limit) < 3 * error).all()
    assert (error < 0.1 * limit).all()


@pytest.mark.parametrize("network", [myrtle(channels=8), resnet50((1, 2), width=4)])
def test_forward_operations_are_those_torch_counts(network: Any) -> None:
    """torch counts products only: pooling, ReLU and sums add little."""
    weights, batch = initial_weights(network, (16, 16, 3), 0), torch.randn(1, 3, 16, 16)
    with FlopCounterMode(display=False) as counter:
        through(network, weights, batch)
    ours = forward_operations(network, 16, 16, 3)
    assert counter.get_total_flops() <= ours <= 1.25 * counter.get_total_flops()


def test_outputs_have_the_variance_of_the_nngp_kernel() -> None:
    network = myrtle(channels=64, outputs=512)
    function, weights, batch = network_and_inputs(network, 2)
    outputs = function(weights, batch)
    limit = exact(images(2, 8, 8), network=network, kind="nngp")
    assert np.abs((outputs @ outputs.T / 512).numpy() / limit - 1).max() < 0.35
