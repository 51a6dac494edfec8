"""Work of the survey's artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tangentbench.kernels.layers import Network, flat, forward_operations, weight_shapes
from tangentbench.studies.survey.operations import covariance_operations
from tangentbench.studies.survey.settings import network_named, ways
from tangentbench.studies.work import Work, summed_units, work

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
        size = sum(prod(shape) for _, shape in weight_shapes(network, (side, side), CHANNELS))
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


def summed(works: Sequence[Work]) -> Work:
    return Work(summed_units(works), DATASET_GIB + max(one.memory_gib for one in works))


def compiled(network: Network) -> Work:
    return Work({"neural_tangents_layer": float(sum(1 for _ in flat(network)))})


def repeated(one: Work, times: float) -> Work:
    return Work({name: amount * times for name, amount in one.units.items()}, one.memory_gib)


def integration(count: int, steps: int, outputs: int) -> Work:
    return Work({"flow_step": float(steps), "dense_gflop": 2e-9 * steps * count**2 * outputs})


def measured(
    *,
    architecture: str,
    architecture_settings: Mapping[str, Any],
    kernels: Sequence[str],
    backends: Sequence[str],
    loss: str,
    integration_steps: int,
    batch_size: int,
    test_images: Mapping[str, int],
    finite_gib: float,
    points: Mapping[str, Sequence[tuple[int, int]]],
    compilations: Mapping[str, int],
    **_: object,
) -> Work:
    """`points`: (side, training images) where a backend is timed; `compilations`: how often it compiles."""
    outputs = CLASSES[loss]
    network = network_named(architecture, architecture_settings, outputs)
    works = []
    for kernel, backend in ways(kernels, backends):
        works += [compiled(network)] * compilations.get(backend, 0)
        for side, train in points[backend]:
            tests = test_images[backend]
            regression = once(
                network, kernel, backend, side=side, train=train, test=tests, batch=batch_size, outputs=outputs,
                gib=finite_gib,
            )  # fmt: skip
            works += [regression, integration(train, integration_steps, outputs)]
    return summed(works)


@work("survey_fig2_5")
@work("survey_fig2_6")
@work("survey_fig2_7")
def against_images(*, train_sizes: Mapping[str, Sequence[int]], image_side: int, **settings: Any) -> Work:
    points = {backend: [(image_side, size) for size in sizes] for backend, sizes in train_sizes.items()}
    return measured(points=points, compilations={"neural_tangents": 1}, **settings)


@work("survey_fig2_8")
def against_side(*, sides: Mapping[str, Sequence[int]], train_images: int, **settings: Any) -> Work:
    points = {backend: [(side, train_images) for side in own] for backend, own in sides.items()}
    return measured(points=points, compilations={"neural_tangents": len(sides.get("neural_tangents", ()))}, **settings)
