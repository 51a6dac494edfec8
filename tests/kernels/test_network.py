"""One description of a network: what is refused, what it is called, and that its parts agree."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from images import images

from tangentbench.kernels import exact, myrtle, resnet50
from tangentbench.kernels.architectures import vanilla
from tangentbench.kernels.finite import finite_ntk, initial_weights, trained_weights
from tangentbench.kernels.network import (
    AveragePool,
    Convolution,
    Dense,
    Flatten,
    GlobalAveragePool,
    InvalidKernelInput,
    LeakyRelu,
    Pointwise,
    Relu,
    Residual,
    description,
    through,
)
from tangentbench.theory.activations import activation


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        (lambda: Convolution(2), "filter is 2"),
        (lambda: Convolution(stride=0), "stride is 0"),
        (lambda: Convolution(stride=-1), "stride is -1"),
        (lambda: Convolution(weight_variance=-1), "weight_variance is -1"),
        (lambda: Dense(bias_variance=float("nan")), "bias_variance is nan"),
        (lambda: Convolution(trained="no"), "trained is 'no'"),  # type: ignore[arg-type]
        (lambda: AveragePool(0), "window is 0"),
        (lambda: LeakyRelu("x"), "slope of a leaky ReLU is 'x'"),  # type: ignore[arg-type]
        (lambda: Pointwise(np.tanh), "record of theory.activations"),  # type: ignore[arg-type]
        (lambda: Residual((Convolution(), GlobalAveragePool())), "GlobalAveragePool stands in a branch"),
        (lambda: Residual((Residual((Convolution(), Flatten())),)), "Flatten stands in a branch"),
    ],
)
def test_wrong_layers_are_refused_with_one_sentence(layer: Any, says: str) -> None:
    with pytest.raises(InvalidKernelInput, match=says):
        layer()


@pytest.mark.parametrize("network", [5, "myrtle", [Relu], None.__class__])
def test_what_is_no_network_is_refused(network: Any) -> None:
    with pytest.raises(InvalidKernelInput, match="layers"):
        exact(images(2, 8, 8), network=network)


def test_descriptions_are_json_and_know_what_decides_the_kernel() -> None:
    for network in (myrtle(), resnet50(), vanilla(4, "flatten", False)):
        assert json.loads(json.dumps(description(network))) == description(network)
    assert description(myrtle(channels=8)) == description(myrtle(channels=9, outputs=3))
    assert description([Convolution(weight_variance=2)]) == description([Convolution(weight_variance=np.float64(2.0))])
    assert description([Relu()]) == description([LeakyRelu(0.0)])
    different = [description(one) for one in (vanilla(3), vanilla(4), vanilla(3, "flatten"), vanilla(3, "gap", False))]
    assert all(different.count(one) == 1 for one in different)


def test_networks_can_be_sent_to_another_process() -> None:
    network = (Convolution(), Pointwise(activation("norm_relu", c=0.5)), Flatten(), Dense())
    assert description(pickle.loads(pickle.dumps(network))) == description(network)


@pytest.mark.parametrize(
    "network",
    [
        (
            Convolution(3, 1, 256, bias_variance=0.3, trained=False),
            LeakyRelu(0.3),
            AveragePool(3, 1, True),
            Convolution(3, 2, 256, bias_variance=0.1),
            Relu(),
            Flatten(),
            Dense(8, trained=False),
        ),
        (Convolution(channels=256), Pointwise(activation("erf")), GlobalAveragePool(), Dense(8, bias_variance=0.2)),
    ],
    ids=["leaky, biased, frozen", "erf"],
)
def test_wide_finite_networks_approach_the_exact_kernel(network: Any) -> None:
    batch = images(3, 5, 5)
    pixels = torch.from_numpy(batch.transpose(0, 3, 1, 2).copy())
    values = []
    for seed in range(4):
        weights = {name: one.double() for name, one in initial_weights(network, (5, 5, 3), seed).items()}
        trained, held = trained_weights(network, weights)
        kernel, _ = finite_ntk(
            lambda some, x, held=held: through(network, {**held, **some}, x),  # type: ignore[misc]
            trained,
            pixels,
            forward_operations=1e6,
        )
        values.append(kernel.numpy())
    limit = exact(batch, network=network)
    assert np.abs(np.mean(values, axis=0) - limit).max() < 0.15 * np.abs(limit).max()
