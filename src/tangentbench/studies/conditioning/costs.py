"""Work of the conditioning study's artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tangentbench.studies.work import Work, summed_units, work

ENTRY_FLOPS = 3000
"""The dual activation of one entry in one layer, as matrix-product operations that take as long (measured)."""
EIGENVALUE_FLOPS = 7
"""For each n^3 of a symmetric matrix's eigenvalues."""
PAIRS = 400
STEP_FLOPS_A_WEIGHT = 6
"""Multiply and add, for the forward product, the backward one and the gradient."""
TYPICAL_STEPS = 100


@work("conditioning_table_mu")
@work("conditioning_fig2")
@work("conditioning_fig6")
def closed_forms(**_: object) -> Work:
    """Closed forms and integrals over one Gaussian: a second at any scale, which the job's start outweighs."""
    return Work()


@work("conditioning_theorem3")
@work("conditioning_theorem5")
def deep_kernels(
    *,
    activations: Sequence[object],
    uncentred_activations: Sequence[object],
    depth_max: int,
    records: int,
    images: int,
    **_: object,
) -> Work:
    """Two sets of images and the pairs; activations whose correlations vanish early cost less than this."""
    entries = images * (images - 1) / 2
    layers = (2 * entries + PAIRS) * depth_max * ENTRY_FLOPS
    spectra = 2 * records * EIGENVALUE_FLOPS * images**3
    flops = (len(activations) + len(uncentred_activations)) * (layers + spectra)
    return Work({"dense_gflop": flops / 1e9}, memory_gib=(10 * entries + 4 * images**2) * 8 / 2**30)


@work("conditioning_training")
def descent(
    *,
    activations: Sequence[object],
    uncentred_activations: Sequence[object],
    depths: Sequence[int],
    images: int,
    runs: int,
    width: int,
    top_width: int,
    **_: object,
) -> Work:
    """Training all layers outweighs the rest; deeper networks take fewer steps than the typical number."""
    families = len(activations) + len(uncentred_activations)
    weights = sum(depths) * width**2
    flops = families * runs * images * weights * STEP_FLOPS_A_WEIGHT * TYPICAL_STEPS
    largest = max(depths) * runs * max(width, top_width) * (max(width, top_width) + 3 * images)
    return Work({"network_gflop": flops / 1e9}, memory_gib=2 * largest * 4 / 2**30)


CLASSES, COLOURS = 10, 3
WAYS = 3
"""Forward, backward and the gradient cost about the same."""
ELEMENTWISE_FLOPS = 120
"""Normalisation and activation of a value, as matrix-product operations that take as long (measured)."""
CONVOLUTION_SHARE = 0.7
"""Time of the ResNets' convolutions against the priced ones, which have another layout in memory (measured)."""
COPIES, NUMBER_BYTES, TENSORS_A_LAYER = 6, 4, 3
GIB = 2**30
TOGETHER_GIB = 3.0
"""What runs that train together may take."""
TEST_PASSES = 1 / WAYS
"""Testing an image costs a forward pass."""


def fully_connected_flops(depth: int, width: int, inputs: int) -> float:
    """Of one image, forward."""
    weights = inputs * width + (depth - 1) * width**2 + width * CLASSES
    return 2.0 * weights + ELEMENTWISE_FLOPS * depth * width


def resnet_flops(depth: int, channels: int, side: int) -> tuple[float, float]:
    """Convolutions of one image, forward, and values that pass an activation."""
    blocks = (depth - 2) // 6
    convolutions, values, entering = 2.0 * 9 * COLOURS * channels * side**2, float(channels * side**2), channels
    for stage in range(3):
        leaving, area = channels * 2**stage, (side / 2**stage) ** 2
        for block in range(blocks):
            first = entering if block == 0 else leaving
            convolutions += 2.0 * 9 * area * leaving * (first + leaving)
            values += 2 * area * leaving
        entering = leaving
    return convolutions, values


@work("conditioning_fig1")
@work("conditioning_fig3")
@work("conditioning_fig4")
@work("conditioning_fig5")
@work("conditioning_fig7")
@work("conditioning_fig8")
def deep_trainings(
    *,
    networks: Sequence[str],
    normalisations: Sequence[str],
    steps: Mapping[str, Mapping[str, float]],
    shape: Mapping[str, Any],
    course: Mapping[str, Any],
    drop_epochs: Mapping[str, Any],
    images: Mapping[str, Any],
    step_choice: Mapping[str, Any],
    runs: int,
    augmentation: bool,
    probe_absolute: bool,
    **_: object,
) -> Work:
    """A training for every network and normalisation; figures whose trainings have the same settings share them."""
    settings = (shape, course, images, step_choice, augmentation, probe_absolute)
    pieces: dict[str, Work] = {}
    for network in networks:
        for normalisation in normalisations:
            step = steps.get(network, {}).get(normalisation) if step_choice["how"] == "printed" else None
            own = (network, normalisation, step, drop_epochs.get(normalisation), *settings)
            pieces[repr(own)] = deep_training(network, shape, course, images, step_choice, runs)
    data = NUMBER_BYTES * COLOURS * images["side"] ** 2 * 3 * (images["train"] + images["test"]) / GIB
    memory = data + max(piece.memory_gib for piece in pieces.values())
    disk = sum(piece.disk_gib for piece in pieces.values())
    return Work(summed_units(pieces.values()), memory, disk, lendable=pieces)


def deep_training(
    network: str,
    shape: Mapping[str, Any],
    course: Mapping[str, Any],
    images: Mapping[str, Any],
    step_choice: Mapping[str, Any],
    runs: int,
) -> Work:
    """The search for a step and the runs of one network with one normalisation."""
    kind, depth = network.split("_")[0], int(network.split("_")[1])
    passes = runs * course["epochs"] * (images["train"] + TEST_PASSES * (images["test"] + images["probe"]))
    tried = len(step_choice.get("grid", {}).get(kind, ()))
    total = WAYS * (passes + tried * step_choice.get("epochs", 0) * images["train"])
    if kind == "fc":
        width, inputs = shape["fc_width"], COLOURS * images["side"] ** 2
        units = {"network_gflop": total * fully_connected_flops(depth, width, inputs) / 1e9}
        parameters, values = inputs * width + (depth - 1) * width**2, float(depth * width)
    else:
        convolutions, values = resnet_flops(depth, shape["resnet_channels"], images["side"])
        units = {
            "convolution_gflop": CONVOLUTION_SHARE * total * convolutions / 1e9,
            "network_gflop": total * ELEMENTWISE_FLOPS * values / 1e9,
        }
        parameters = 9 * 7 * depth * shape["resnet_channels"] ** 2
    a_run = NUMBER_BYTES * (COPIES * parameters + TENSORS_A_LAYER * course["batch_size"] * values) / GIB
    memory = a_run * runs if a_run * runs < TOGETHER_GIB else max(a_run, TOGETHER_GIB)
    return Work(units, memory, disk_gib=(tried + runs) * COPIES * NUMBER_BYTES * parameters / GIB)
