"""Random features against autograd, and against the exact kernel they estimate."""

from typing import Any

import numpy as np
import pytest
import torch

from tangentbench.errors import UnknownName
from tangentbench.kernels import cntk, ntk
from tangentbench.kernels.gradient_features import GradientKernel
from tangentbench.networks.ntk_cnn import NtkCnnNets, NtkCnnSpec  # type: ignore[attr-defined]

SHAPE = (5, 5, 2)
KINDS = pytest.mark.parametrize(
    ("kind", "train_first_last"), [("fc", True), ("cnn_v", True), ("cnn_gap", False), ("cnn_gap", True)]
)


def images(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, *SHAPE)).astype(np.float32)


@KINDS
def test_features_are_the_gradients_of_the_network(kind: Any, train_first_last: Any) -> None:
    architecture = NtkCnnSpec(kind, 4, 6, SHAPE, train_first_last=train_first_last)
    nets, inputs = NtkCnnNets(architecture, [3], seed=1), images(5)
    rows = []
    for image in inputs:
        nets.parameters.zero_gradients()
        nets.outputs(torch.from_numpy(image)[None, None]).sum().backward()  # type: ignore[no-untyped-call]
        rows.append(torch.cat([nets.parameters[name].grad.flatten() for name in architecture.trained_names()]))  # type: ignore[union-attr]
    gradients = torch.stack(rows).double().numpy()
    np.testing.assert_allclose(GradientKernel(nets)(inputs, None), gradients @ gradients.T, rtol=2e-4, atol=1e-4)


@KINDS
def test_blocks_agree_with_the_whole(kind: Any, train_first_last: Any) -> None:
    kernel = GradientKernel(NtkCnnNets(NtkCnnSpec(kind, 3, 6, SHAPE, train_first_last=train_first_last), [0], 0))
    inputs = images(20)
    whole = kernel(inputs, None)
    np.testing.assert_allclose(kernel(inputs[:7], inputs[7:]), whole[:7, 7:], rtol=1e-4, atol=1e-5)
    # the rows' features are kept for the next tile, and renewed for other rows
    np.testing.assert_allclose(kernel(inputs[:7], inputs[:3]), whole[:7, :3], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(kernel(inputs[7:], inputs[:3]), whole[7:, :3], rtol=1e-4, atol=1e-5)


@KINDS
def test_mean_over_draws_is_the_exact_kernel(kind: Any, train_first_last: Any) -> None:
    inputs = images(4)
    if kind == "fc":
        flat = inputs.reshape(4, -1)
        exact = ntk(flat, depth=3) * flat.shape[1] / 2
    else:
        pooling = "gap" if kind == "cnn_gap" else "flatten"
        exact = cntk(inputs, depth=3, pooling=pooling, train_first_last=train_first_last, dtype="float64")  # type: ignore[arg-type]
    architecture = NtkCnnSpec(kind, 3, 64, SHAPE, train_first_last=train_first_last)
    draws = [GradientKernel(NtkCnnNets(architecture, [run], 0))(inputs, None) for run in range(60)]
    error = np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws))
    assert (np.abs(np.mean(draws, axis=0) - exact) < 4.5 * error + 0.02 * np.abs(exact)).all()


def test_a_run_does_not_depend_on_its_neighbours() -> None:
    architecture = NtkCnnSpec("cnn_v", 3, 4, SHAPE, outputs=2)
    inputs = torch.from_numpy(images(3))
    together = NtkCnnNets(architecture, [0, 1], 5).outputs(inputs.expand(2, *inputs.shape))
    alone = NtkCnnNets(architecture, [1], 5, kappa=0.5).outputs(inputs[None])
    torch.testing.assert_close(together[1:], 2 * alone)


def test_fixed_layers_are_not_among_the_parameters() -> None:
    nets = NtkCnnNets(NtkCnnSpec("cnn_gap", 4, 4, SHAPE, train_first_last=False), [0], 0)
    assert list(nets.parameters.shapes) == ["weight_2", "weight_3"]
    assert list(nets.frozen.shapes) == ["weight_1", "weight_4"]


def test_unknown_network_and_several_outputs_are_refused() -> None:
    with pytest.raises(UnknownName, match="resnet"):
        NtkCnnSpec("resnet", 3, 4, SHAPE)
    with pytest.raises(ValueError, match="one output"):
        GradientKernel(NtkCnnNets(NtkCnnSpec("fc", 3, 4, SHAPE, outputs=2), [0], 0))
