"""The networks against autograd, the linear network's statistics, and the initialisations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tangentbench.datasets import Dataset
from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.networks.leaky_mlp import RegressionTask, draw, linear_velocity, outputs, task_of, velocity
from tangentbench.networks.mlp_shape import MlpShape
from tangentbench.theory.nearly_linear import root_stable_rank, signal


def whitened_task(
    samples: int = 300, dimension: int = 6, seed: int = 0, dtype: torch.dtype = torch.float64
) -> RegressionTask:
    """A noisy, partly nonlinear two-class problem on exactly whitened inputs."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(samples, dimension)) @ generator.normal(size=(dimension, dimension))
    values, vectors = np.linalg.eigh(x.T @ x / samples)
    x = x @ vectors / np.sqrt(values)
    y = np.sign(x[:, 0] + 0.7 * np.abs(x[:, 1]) - 0.4 + 0.5 * generator.normal(size=samples))
    tensor = torch.from_numpy(x).to(dtype), torch.from_numpy(y).to(dtype)
    half = samples // 2
    return RegressionTask(*tensor, tensor[0][:half], tensor[1][:half], y @ x / samples, x.T @ x / samples)


def by_autograd(shape: MlpShape, weights: np.ndarray, epsilon: float, task: RegressionTask) -> np.ndarray:
    layers = [torch.from_numpy(layer.copy()).requires_grad_() for layer in shape.split(weights)]
    act = task.x_train
    for layer in layers[:-1]:
        act = torch.nn.functional.leaky_relu(act @ layer.T, 1 - epsilon)
    loss = (task.y_train - (act @ layers[-1].T)[:, 0]).square().mean() / 2
    loss.backward()  # type: ignore[no-untyped-call]
    return -shape.join([layer.grad.numpy() for layer in layers])  # type: ignore[union-attr]


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("threads", [1, 2])
def test_velocity_is_the_negative_gradient(depth: int, threads: int) -> None:
    task, shape = whitened_task(samples=5000), MlpShape(depth, 8, 6)
    epsilons = np.array([0.0, 0.3, 1.0])
    weights = np.stack([draw(shape, 0.8, "full_rank", (0, run)) for run in range(3)])
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    ours = velocity(shape, weights, epsilons, task)
    torch.set_num_threads(before)
    exact = np.stack([by_autograd(shape, w, e, task) for w, e in zip(weights, epsilons, strict=True)])
    np.testing.assert_allclose(ours, exact, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_the_linear_network_needs_only_statistics(depth: int) -> None:
    task, shape = whitened_task(), MlpShape(depth, 7, 6)
    weights = np.stack([draw(shape, 0.5, layer, (1,)) for layer in ("full_rank", "rank_one")])
    ours = linear_velocity(shape, weights, task.correlation, task.moment)
    np.testing.assert_allclose(ours, velocity(shape, weights, np.zeros(2), task), rtol=1e-9, atol=1e-13)


def test_outputs_of_linear_networks_are_the_product() -> None:
    task, shape = whitened_task(), MlpShape(3, 7, 6)
    weights = draw(shape, 0.5, "full_rank", (2,))[None]
    first, middle, last = shape.split(weights)
    expected = (last @ middle @ first)[0, 0] @ task.x_test.numpy().T
    np.testing.assert_allclose(outputs(shape, weights, np.zeros(1), task.x_test)[0], expected, rtol=1e-10)


def test_layers_start_with_norm_beta_and_the_rank_asked_for() -> None:
    shape = MlpShape(3, 64, 49)
    full, thin = (shape.split(draw(shape, 0.01, layer, (0,))) for layer in ("full_rank", "rank_one"))
    for layer in (*full, *thin):
        assert np.linalg.norm(layer, 2) == pytest.approx(0.01)
    assert root_stable_rank(thin[0]) == pytest.approx(1.0)
    assert 3 < root_stable_rank(full[0]) < 5
    np.testing.assert_array_equal(full[1], thin[1])
    larger = shape.split(draw(shape, 1.0, "full_rank", (0,)))
    np.testing.assert_allclose(larger[0], 100 * full[0])
    with pytest.raises(UnknownName, match="input layer"):
        draw(shape, 0.01, "rank_two", (0,))


def test_split_and_join_are_inverse() -> None:
    shape = MlpShape(4, 5, 3)
    weights = np.arange(2.0 * shape.parameters).reshape(2, -1)
    np.testing.assert_array_equal(shape.join(shape.split(weights)), weights)


def test_a_task_has_signs_statistics_and_rank() -> None:
    task = whitened_task()
    x = np.concatenate([task.x_train.numpy(), np.zeros((300, 2))], axis=1).astype(np.float32)
    labels = (task.y_train.numpy() > 0).astype(np.int64)
    made = task_of(Dataset("toy", x, labels, x[:9], labels[:9], ("no", "yes")))
    assert made.rank == 6 and made.samples == 300
    assert made.s == pytest.approx(signal(x, task.y_train.numpy()), rel=1e-6)
    assert set(made.y_train.tolist()) == {-1.0, 1.0}
    with pytest.raises(TangentbenchError, match="not whitened"):
        task_of(Dataset("toy", 3 * x, labels, x[:9], labels[:9], ("no", "yes")))
