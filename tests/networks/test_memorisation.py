"""The batched memorisation networks: kernel, gradient and independence of runs, against autograd and closed forms."""

import dataclasses

import numpy as np
import pytest
import torch

from tangentbench.errors import UnknownName
from tangentbench.networks.architecture import MemorisationSpec, WeightDistribution
from tangentbench.networks.memorisation import MemorisationNets, draw
from tangentbench.theory.memorisation import critical_weight_scale, expected_kernel
from tangentbench.theory.paths import enumerate_paths, path_activity, path_values

SMALL = MemorisationSpec(width=6, depth=4, examples=7, gate_probability=0.6, weight_scale=0.5)
DEPTHS = (2, 3, 5)


def nets_of(depth: int, runs: int = 3, seed: int = 1) -> MemorisationNets:
    return draw(dataclasses.replace(SMALL, depth=depth), range(runs), seed, torch.float64)


def layered_output(first: torch.Tensor, middle: torch.Tensor, last: torch.Tensor, gates: torch.Tensor) -> torch.Tensor:
    """One run's outputs written as in Table 4, for autograd."""
    hidden = first * gates[0]
    for weights, gate in zip(middle, gates[1:], strict=True):
        hidden = (hidden @ weights) * gate
    return hidden @ last


@pytest.mark.parametrize("depth", DEPTHS)
def test_tangent_kernel_is_that_of_autograd(depth: int) -> None:
    nets = nets_of(depth)
    kernels = nets.tangent_kernel()
    for run in range(3):
        gates = nets.gates[:, run]
        jacobians = torch.func.jacrev(layered_output, argnums=(0, 1, 2))(
            nets.first[run], nets.middle[:, run], nets.last[run], gates
        )
        rows = torch.cat([jacobian.reshape(SMALL.examples, -1) for jacobian in jacobians], dim=1)
        torch.testing.assert_close(kernels[run], rows @ rows.T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_step_is_that_of_autograd(depth: int) -> None:
    nets = nets_of(depth)
    step_sizes = torch.tensor([0.1, 0.03, 0.0], dtype=torch.float64)
    expected = []
    for run in range(3):
        leaves = [
            weights.clone().requires_grad_() for weights in (nets.first[run], nets.middle[:, run], nets.last[run])
        ]
        error = layered_output(*leaves, nets.gates[:, run]) - nets.targets[run]  # type: ignore[call-arg]
        gradients = torch.autograd.grad(0.5 * error.square().sum(), leaves, allow_unused=True)
        expected.append(
            [
                (leaf - step_sizes[run] * (0 if gradient is None else gradient)).detach()
                for leaf, gradient in zip(leaves, gradients, strict=True)
            ]
        )
    before = nets.outputs() - nets.targets
    torch.testing.assert_close(nets.descend(step_sizes), before)
    for run, (first, middle, last) in enumerate(expected):
        torch.testing.assert_close(nets.first[run], first)
        torch.testing.assert_close(nets.middle[:, run], middle)
        torch.testing.assert_close(nets.last[run], last)


def test_output_is_the_sum_over_paths() -> None:
    nets = nets_of(3, runs=1)
    paths = enumerate_paths(1, [SMALL.width] * 2)
    activity = path_activity([layer.numpy() for layer in nets.gates[:, 0]], paths)
    weights = [nets.first[0][None, :].numpy(), nets.middle[0, 0].numpy(), nets.last[0][:, None].numpy()]
    np.testing.assert_allclose(activity @ path_values(weights, paths), nets.outputs()[0].numpy(), atol=1e-13)


@pytest.mark.parametrize("distribution", ["bernoulli", "gaussian"])
def test_mean_kernel_is_the_ideal_one(distribution: WeightDistribution) -> None:
    """E[K_0]/d is the matrix (15) at any width: its entries agree within five standard errors of the mean."""
    width, depth, draws = 12, 3, 4000
    architecture = MemorisationSpec(width, depth, 5, 0.5, critical_weight_scale(width, 0.5), distribution)
    kernels = draw(architecture, range(draws), 0, torch.float64).tangent_kernel().numpy() / depth
    standard_error = kernels.std(axis=0) / np.sqrt(draws)
    assert (np.abs(kernels.mean(axis=0) - expected_kernel(5, depth, 0.5)) < 5 * standard_error).all()


def test_kernel_comes_closer_to_the_ideal_as_width_grows() -> None:
    def error(width: int) -> float:
        architecture = MemorisationSpec(width, 4, 30, 0.5, critical_weight_scale(width, 0.5))
        kernels = draw(architecture, range(8), 0, torch.float64).tangent_kernel().numpy() / 4
        return float(np.square(kernels - expected_kernel(30, 4, 0.5)).mean())

    assert error(256) < error(16) / 8


def test_a_run_is_the_same_alone_and_in_a_batch() -> None:
    batch = draw(SMALL, range(5), 3, torch.float64)
    alone = draw(SMALL, [3], 3, torch.float64)
    for name in ("gates", "middle"):
        assert torch.equal(getattr(batch, name)[:, 3], getattr(alone, name)[:, 0])
    step_sizes = torch.full((5,), 0.05, dtype=torch.float64)
    for _ in range(50):
        together, single = batch.descend(step_sizes), alone.descend(step_sizes[:1])
    torch.testing.assert_close(together[3], single[0], rtol=1e-12, atol=1e-12)


def test_targets_depend_on_the_run_but_not_on_the_architecture() -> None:
    shallow, deep = nets_of(2), nets_of(5)
    assert torch.equal(shallow.targets, deep.targets)
    assert not torch.equal(shallow.targets[0], shallow.targets[1])
    assert not torch.equal(shallow.targets, nets_of(2, seed=2).targets)


def test_draws_follow_their_laws() -> None:
    nets = draw(MemorisationSpec(50, 4, 100, 0.3, 0.2), range(4), 0, torch.float64)
    assert set(nets.middle.unique().tolist()) == {-0.2, 0.2}  # type: ignore[no-untyped-call]
    assert set(nets.gates.unique().tolist()) == {0.0, 1.0}  # type: ignore[no-untyped-call]
    assert nets.gates.mean().item() == pytest.approx(0.3, abs=0.01)
    assert nets.targets.abs().max() <= 1


def test_float32_follows_float64() -> None:
    single, double = (draw(SMALL, range(3), 0, dtype) for dtype in (torch.float32, torch.float64))
    for _ in range(20):
        low = single.descend(torch.full((3,), 0.05))
        high = double.descend(torch.full((3,), 0.05, dtype=torch.float64))
    torch.testing.assert_close(low.double(), high, rtol=1e-3, atol=1e-5)


def test_unknown_distribution_and_too_little_depth_are_refused() -> None:
    with pytest.raises(UnknownName, match="weight distribution 'cauchy'"):
        dataclasses.replace(SMALL, weight_distribution="cauchy")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 2 layers"):
        dataclasses.replace(SMALL, depth=1)
