"""Work of the survey's artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tangentbench.costs import Work, work
from tangentbench.kernels.layers import Network, flat, forward_operations
from tangentbench.models.layered import weight_shapes
from tangentbench.studies.survey.measurement import network_named, ways
from tangentbench.studies.survey.operations import covariance_operations

GIB = 2**30
DATASET_GIB = 0.75
CHANNELS = 3
CLASSES = {"binary_cross_entropy": 1, "cross_entropy": 10}
TORCH_SLOWER = 40.0
"""Operations of the torch recursion take so many times longer than the native core's."""
JAX_GIB = 1.5


def once(
    network: Network,
    kernel: str,
    backend: str,
    *,
    side: int,
    train: int,
    test: int,
    batch: int,
    outputs: int,
    gib: float,
) -> Work:
    """One Gram matrix and one inference."""
    if kernel == "empirical_ntk":
        forward = forward_operations(network, side, side, CHANNELS)
        size = sum(one_size(shape) for _, shape in weight_shapes(network, (side, side), CHANNELS))
        gradients = 3 * forward * outputs * (2 * train + test)
        products = 2.0 * size * outputs * (train * train + train * test)
        return Work({"convolution_gflop": gradients / 1e9, "network_gflop": products / 1e9}, gib)
    entries = train * (train + 1) / 2 + train * test
    operations = covariance_operations(network, side, side, CHANNELS, tangent=kernel == "ntk")
    if backend != "neural_tangents":
        slower = TORCH_SLOWER if backend == "torch" else 1.0
        return Work({"layered_kernel_gflop": operations * entries * slower / 1e9}, 1.0)
    entries = train * train + train * test
    positions = float(side * side) ** 2
    return Work({"neural_tangents_gflop": operations * entries / 1e9}, JAX_GIB + 16 * 4 * batch**2 * positions / GIB)


def one_size(shape: Sequence[int]) -> float:
    size = 1.0
    for length in shape:
        size *= length
    return size


def summed(works: Sequence[Work]) -> Work:
    units: dict[str, float] = {}
    for one in works:
        for name, amount in one.units.items():
            units[name] = units.get(name, 0.0) + amount
    return Work(units, DATASET_GIB + max(one.memory_gib for one in works))


def compiled(network: Network) -> Work:
    return Work({"neural_tangents_layer": float(sum(1 for _ in flat(network)))})


def repeated(one: Work, times: float) -> Work:
    return Work({name: amount * times for name, amount in one.units.items()}, one.memory_gib)


def integration(count: int, steps: int, outputs: int) -> Work:
    return Work({"flow_step": float(steps), "dense_gflop": 2e-9 * steps * count**2 * outputs})


def against_images(
    *,
    architecture: str,
    architecture_settings: Mapping[str, Any],
    kernels: Sequence[str],
    backends: Sequence[str],
    loss: str,
    integration_steps: int,
    batch_size: int,
    train_sizes: Mapping[str, Sequence[int]],
    test_images: Mapping[str, int],
    image_side: int,
    finite_gib: float,
    **_: object,
) -> Work:
    outputs = CLASSES[loss]
    network = network_named(architecture, architecture_settings, outputs)
    works = []
    for kernel, backend in ways(kernels, backends):
        if backend == "neural_tangents":
            works.append(compiled(network))
        for train in train_sizes[backend]:
            works.append(
                once(
                    network,
                    kernel,
                    backend,
                    side=image_side,
                    train=train,
                    test=test_images[backend],
                    batch=batch_size,
                    outputs=outputs,
                    gib=finite_gib,
                )
            )
            works.append(integration(train, integration_steps, outputs))
    return summed(works)


for name in ("survey_fig2_5", "survey_fig2_6", "survey_fig2_7"):
    work(name)(against_images)


@work("survey_fig2_8")
def against_side(
    *,
    architecture: str,
    architecture_settings: Mapping[str, Any],
    kernels: Sequence[str],
    backends: Sequence[str],
    loss: str,
    integration_steps: int,
    batch_size: int,
    sides: Mapping[str, Sequence[int]],
    train_images: int,
    test_images: Mapping[str, int],
    finite_gib: float,
    **_: object,
) -> Work:
    outputs = CLASSES[loss]
    network = network_named(architecture, architecture_settings, outputs)
    works = []
    for kernel, backend in ways(kernels, backends):
        for side in sides[backend]:
            if backend == "neural_tangents":
                works.append(compiled(network))
            works.append(
                once(
                    network,
                    kernel,
                    backend,
                    side=side,
                    train=train_images,
                    test=test_images[backend],
                    batch=batch_size,
                    outputs=outputs,
                    gib=finite_gib,
                )
            )
            works.append(integration(train_images, integration_steps, outputs))
    return summed(works)
