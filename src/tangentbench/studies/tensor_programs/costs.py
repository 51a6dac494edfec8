"""Work of the study of non-Gaussian weights: drawing the weights on the CPU, and products with few rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tangentbench.networks.mlp_shape import MlpShape
from tangentbench.networks.sequence_shapes import square_matrices
from tangentbench.studies.tensor_programs.settings import (
    Kernels,
    OneHiddenLayer,
    ReadoutNorms,
    StateKernels,
    TangentKernels,
    TwoHiddenLayers,
)
from tangentbench.studies.work import Work, work

_DRAW_GFLOP = {
    "gaussian": 0.22,
    "gaussian_again": 0.22,
    "truncated_gaussian": 0.75,
    "uniform": 0.19,
    "laplace": 1.6,
    "exponential": 1.25,
    "quintcauchy": 2.5,
    "cubecauchy": 2.5,
}
"""Matrix-product GFLOP that take as long as 10^6 draws of a distribution (3 to 40 ns per draw)."""
_MILLION = 1e6
_SENTENCE_PASSES = 9
"""How often each matrix is read for the two sentences."""
_PIXEL_PASSES = {"rnn": 8, "transformer": 24}
"""The same for the pixels, forward and backward; of the transformer with the products of its gradients (measured)."""
_READ_GFLOP = 0.07
"""A matrix entry's part in a product with a few rows, for 10^6 of them: reading it outweighs the arithmetic."""
_LIMIT_GFLOP = {"gru": 4.0, "rnn": 0.15, "transformer": 0.0}
"""Of one scrambling with 2^13 points, for each distribution."""
_BATCH_GIB = 0.3
_STEP_GFLOP_PER_UNIT = 2.6e-6
"""A step of one hidden unit with ten inputs and ten classes: 10 microseconds for 256 of them."""
_ENTRY_FLOPS = 14.0
"""Of a step for an entry of the matrix between two hidden layers, beside its products with the batch's rows."""
_FLOPS_PER_WEIGHT = 6
_CLASSES = 10
_SMALL_IMAGE, _LARGE_IMAGE = 48, 3072


def _draws(distributions: Sequence[str], entries: float) -> float:
    """GFLOP of as many draws of each distribution; one without a measured price counts as the dearest."""
    dearest = max(_DRAW_GFLOP.values())
    return sum(_DRAW_GFLOP.get(name, dearest) for name in distributions) * entries / _MILLION


@work("tensor_programs_figA_1")
@work("tensor_programs_figA_2")
def state_kernels(settings: StateKernels) -> Work:
    passes = dict.fromkeys(settings.architectures, _SENTENCE_PASSES)
    return _kernels(settings, passes, depths={"transformer": settings.transformer_depth})


@work("tensor_programs_figA_3")
def tangent_kernels(settings: TangentKernels) -> Work:
    return _kernels(settings, {name: _PIXEL_PASSES[name] for name in settings.architectures}, depths={})


def _kernels(settings: Kernels, passes: Mapping[Any, int], depths: Mapping[str, int]) -> Work:
    """Each architecture reads its square matrices in so many passes."""
    drawing, reading, largest = 0.0, 0.0, 0
    count = len(settings.distributions)
    for architecture, times in passes.items():
        matrices = square_matrices(architecture, depths.get(architecture, 1))
        entries = float(settings.inits * matrices * sum(width**2 for width in settings.widths))
        drawing += _draws(settings.distributions, entries)
        reading += count * entries / _MILLION * _READ_GFLOP * times
        points = 2.0 ** (settings.limit.log2_points - 13)
        drawing += _LIMIT_GFLOP[architecture] * points * settings.limit.scramblings * count
        largest = max(largest, 4 * matrices * max(settings.widths) ** 2)
    return Work(_units(drawing, reading), memory_gib=_BATCH_GIB + 3 * largest / 2**30, disk_gib=0.01)


def _units(drawing: float, computing: float) -> dict[str, float]:
    """GFLOP of what stays on the CPU, and of what the networks do on any device."""
    return {"dense_gflop": drawing, "network_gflop": computing}


@work("tensor_programs_figA_4")
def one_hidden_layer(settings: OneHiddenLayer) -> Work:
    units = float(settings.inits * sum(settings.widths) + settings.limit.runs * settings.limit.width)
    everyone = ["gaussian", *settings.distributions]
    drawing = _draws(everyone, units * (_SMALL_IMAGE + _CLASSES))
    training = len(everyone) * units * max(settings.training.epochs_shown) * _STEP_GFLOP_PER_UNIT
    gib = 4 * settings.limit.width * (_SMALL_IMAGE + 6 * _CLASSES) / 2**30
    return Work(_units(drawing, training), memory_gib=_BATCH_GIB + 2 * gib, disk_gib=0.01)


@work("tensor_programs_figA_5")
def from_the_same_trainings(settings: ReadoutNorms) -> Work:
    return Work()


@work("tensor_programs_figA_6")
@work("tensor_programs_figA_7")
def two_hidden_layers(settings: TwoHiddenLayers) -> Work:
    """Ten images are those of four by four pixels, more of them whole ones."""
    images, training = settings.images, settings.training
    ensembles = 2 + (len(settings.distributions) - 1) * len(settings.swapped)
    inputs = _CLASSES if images <= _SMALL_IMAGE else _LARGE_IMAGE
    batch = min(images, training.batch_size_max)
    steps = max(training.epochs_shown) * -(-images // batch)
    drawing, computing = 0.0, 0.0
    for width in settings.widths:
        first, middle, last = MlpShape(3, width, inputs, _CLASSES).products
        step = _FLOPS_PER_WEIGHT * batch * (first + middle + last) + _ENTRY_FLOPS * middle
        step += 1e9 * _STEP_GFLOP_PER_UNIT * width
        computing += ensembles * settings.inits * steps * step / 1e9
        drawing += len(settings.swapped) * _draws(settings.distributions, float(settings.inits * (first + middle)))
    largest = 8 * max(settings.widths) * (max(settings.widths) + inputs) / 2**30
    return Work(_units(drawing, computing), memory_gib=_BATCH_GIB + 2 * largest, disk_gib=0.01)
