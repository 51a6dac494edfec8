"""Work of the survey's artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tangentbench.kernels.network import Network, covariance_operations, flat, forward_operations, weight_shapes
from tangentbench.studies.survey.settings import FINITE, AgainstImages, AgainstSide, Regression, Way
from tangentbench.studies.work import Work, summed_units, work

GIB = 2**30
FLOAT32 = 4
DATASET_GIB = 0.75
CHANNELS, CLASSES = 3, 10
TORCH_SLOWER = 40.0
"""Operations of the torch recursion take so many times longer than the native core's."""
JAX_GIB = 1.5
BUFFERS = 16
"""Arrays over all pairs of positions that neural-tangents holds at once."""


@work("survey_fig2_5")
@work("survey_fig2_6")
@work("survey_fig2_7")
def against_images(settings: AgainstImages) -> Work:
    points = {way: [(settings.image_side, size) for size in sizes] for way, sizes in settings.train_sizes.items()}
    return _measured(settings, points, compilations=1)


@work("survey_fig2_8")
def against_side(settings: AgainstSide) -> Work:
    points = {way: [(side, settings.train_images) for side in sides] for way, sides in settings.sides.items()}
    return _measured(settings, points, compilations=len(settings.sides.get("neural_tangents", ())))


def _measured(settings: Regression, points: Mapping[Way, Sequence[tuple[int, int]]], compilations: int) -> Work:
    """`points`: (side, training images) where each way is timed; `compilations`: how often neural-tangents compiles."""
    outputs = settings.outputs(CLASSES)
    network = settings.architecture.network(outputs)
    works = []
    for kernel, way in settings.ways:
        if way == "neural_tangents":
            works += [_compiled(network)] * compilations
        for side, train in points[way]:
            test = settings.test_images[way]
            if way == FINITE:
                works.append(_finite(settings, network, side, train, test))
            elif way == "neural_tangents":
                works.append(_neural_tangents(settings, network, side, train * (train + test), tangent=kernel == "ntk"))
            else:
                entries = train * (train + 1) / 2 + train * test
                slower = TORCH_SLOWER if way == "torch" else 1.0
                operations = covariance_operations(network, side, side, CHANNELS, tangent=kernel == "ntk")
                works.append(Work({"layered_kernel_gflop": operations * entries * slower / 1e9}, 1.0))
            works.append(_integrated(settings, train, outputs))
    return Work(summed_units(works), DATASET_GIB + max(one.memory_gib for one in works))


def _finite(settings: Regression, network: Network, side: int, train: int, test: int) -> Work:
    """Gradients of every output, then their products."""
    outputs = settings.outputs(CLASSES)
    forward = forward_operations(network, side, side, CHANNELS)
    size = sum(prod(shape) for _, shape in weight_shapes(network, (side, side), CHANNELS))
    gradients = 3 * forward * outputs * (2 * train + test)
    products = 2.0 * size * outputs * (train * train + train * test)
    return Work({"convolution_gflop": gradients / 1e9, "network_gflop": products / 1e9}, settings.finite_gib)


def _neural_tangents(settings: Regression, network: Network, side: int, entries: float, *, tangent: bool) -> Work:
    operations = covariance_operations(network, side, side, CHANNELS, tangent=tangent)
    pairs = float(side * side) ** 2
    buffers = BUFFERS * FLOAT32 * settings.batch_size**2 * pairs
    return Work({"neural_tangents_gflop": operations * entries / 1e9}, JAX_GIB + buffers / GIB)


def _compiled(network: Network) -> Work:
    return Work({"neural_tangents_layer": float(sum(1 for _ in flat(network)))})


def _integrated(settings: Regression, count: int, outputs: int) -> Work:
    steps = settings.integration.steps
    return Work({"flow_step": float(steps), "dense_gflop": 2e-9 * steps * count**2 * outputs})
