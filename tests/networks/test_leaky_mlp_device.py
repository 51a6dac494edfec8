"""The passes of the nearly linear networks on a device that is not the CPU (tests/second_device.py)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from second_device import lazy_device

from tangentbench.networks import leaky_mlp, leaky_mlp_device
from tangentbench.networks.leaky_mlp import RegressionTask, draw
from tangentbench.networks.leaky_mlp_device import Batch, outputs_on_device, velocity_on_device
from tangentbench.networks.mlp_shape import MlpShape

SAMPLES, DIMENSION, WIDTH = 50, 6, 5
EPSILONS = np.array([0.0, 0.3, 1.0])


def task_of(dtype: torch.dtype) -> RegressionTask:
    generator = np.random.default_rng(0)
    x = torch.from_numpy(generator.normal(size=(SAMPLES, DIMENSION))).to(dtype)
    y = torch.from_numpy(generator.choice([-1.0, 1.0], SAMPLES)).to(dtype)
    return RegressionTask(x, y, x[:20], y[:20], np.zeros(DIMENSION), np.eye(DIMENSION))


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
def test_passes_there_are_the_cpus(
    depth: int, dtype: torch.dtype, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, shape = task_of(dtype), MlpShape(depth, WIDTH, DIMENSION)
    weights = np.stack([draw(shape, 0.8, "full_rank", (0, run)) for run in range(3)])
    rates = leaky_mlp.velocity(shape, weights, EPSILONS, task)
    values = leaky_mlp.outputs(shape, weights, EPSILONS, task.x_test)
    monkeypatch.setattr(leaky_mlp_device, "current", lazy_device)
    # seven examples a block, so that the last one is not full
    monkeypatch.setattr(leaky_mlp_device, "_BLOCK_BYTES", 7 * 2 * (depth - 1) * 3 * WIDTH * dtype.itemsize)
    seen = []
    activations = Batch.activations

    def noted(self: Batch, x: torch.Tensor) -> list[torch.Tensor]:
        seen.append((x.device.type, len(x)))
        return activations(self, x)

    monkeypatch.setattr(Batch, "activations", noted)
    np.testing.assert_allclose(velocity_on_device(shape, task)(weights, EPSILONS), rates, rtol=tolerance, atol=1e-7)
    assert seen == [*[("lazy", 7)] * 7, ("lazy", 1)]
    found = outputs_on_device(shape, weights, EPSILONS, task.x_test)
    np.testing.assert_allclose(found, values, rtol=tolerance, atol=1e-7)


def test_the_cpu_keeps_its_own_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    task, shape = task_of(torch.float32), MlpShape(2, WIDTH, DIMENSION)
    weights = draw(shape, 0.8, "full_rank", (0,))[None]
    monkeypatch.setattr(leaky_mlp_device, "Batch", None)
    rates = velocity_on_device(shape, task)(weights, EPSILONS[:1])
    np.testing.assert_array_equal(rates, leaky_mlp.velocity(shape, weights, EPSILONS[:1], task))
    values = outputs_on_device(shape, weights, EPSILONS[:1], task.x_test)
    np.testing.assert_array_equal(values, leaky_mlp.outputs(shape, weights, EPSILONS[:1], task.x_test))
