"""Work of the CNTK study's artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tangentbench.gram.plans import KernelPlan
from tangentbench.studies.cntk.cells import parse_cells
from tangentbench.studies.cntk.plans import (
    FEATURE_COLUMNS,
    NETWORK_COLUMNS,
    POOLINGS,
    SIZES,
    TABLE1,
    TABLE2,
    table1_plans,
    table2_plans,
    vanilla_plans,
)
from tangentbench.studies.work import Work, summed_units, work
from tangentbench.suite.gram_costs import kernel_units, matrices_gib

GIB = 2**30
FLOAT32 = 4
DATASET_GIB = 0.75
"""All of CIFAR-10 in float32; smaller sets are counted as much."""


def total(works: Sequence[Work]) -> Work:
    """One job that does all of them, one after the other."""
    units = summed_units(works)
    largest_disk = max((one.disk_gib for one in works), default=0.0)
    return Work(units, max((one.memory_gib for one in works), default=0.0), largest_disk)


def regression(train: int, test: int, units: Mapping[str, float]) -> Work:
    """A factor in float64 in memory beside matrices on disk, of which half the square one is kept."""
    factor_gib = train * train * 8 / 2 / GIB
    gflop = {"cholesky_gflop": train**3 / 3e9}
    return Work({**units, **gflop}, DATASET_GIB + 1.1 * factor_gib, matrices_gib(train, test))


def exact_kernel(plan: KernelPlan) -> Work:
    return regression(plan.images.train, plan.images.test, kernel_units(plan, plan.entries))


def forward_gflop(depth: int, channels: int, side: int, filter_size: int) -> float:
    """An image's convolutions, once forward; the first has 3 channels below it."""
    per_channel_below = 2e-9 * side * side * filter_size**2 * channels
    return per_channel_below * (3 + (depth - 2) * channels)


@work("cntk_table1")
def networks_and_kernels(
    *,
    cells: Sequence[str],
    image_side: int,
    filter_size: int,
    train_images: Mapping[str, int],
    test_images: Mapping[str, int],
    cnn_channels: Sequence[int],
    cnn_steps: Sequence[float],
    cnn_kappas: Sequence[float],
    cnn_epochs: int,
    cnn_runs: int,
    **settings: Any,
) -> Work:
    works = [
        exact_kernel(plan)
        for plan in table1_plans(
            cells=cells,
            image_side=image_side,
            filter_size=filter_size,
            train_images=train_images,
            test_images=test_images,
            **settings,
        )
    ]
    for column, depth in parse_cells(cells, TABLE1):
        if column not in NETWORK_COLUMNS:
            continue
        trainings = cnn_epochs * cnn_runs * len(cnn_steps) * len(cnn_kappas)
        for channels in cnn_channels:
            # forward and backward on the training images, forward on the test images
            images = 3 * train_images[column] + test_images[column]
            gflop = forward_gflop(depth, channels, image_side, filter_size) * trainings * images
            works.append(Work({"convolution_gflop": gflop}, DATASET_GIB + 1.0))
    return total(works)


@work("cntk_vanilla_full")
def vanilla_kernel(**settings: Any) -> Work:
    return total([exact_kernel(plan) for plan in vanilla_plans(**settings)])


@work("cntk_table2")
def exact_against_random_features(
    *,
    cells: Sequence[str],
    image_side: int,
    filter_size: int,
    channels: int,
    draws: int,
    train_images: Mapping[str, Mapping[str, int]],
    test_images: Mapping[str, int],
    feature_gib: float,
    **settings: Any,
) -> Work:
    works = [
        exact_kernel(plan)
        for plan in table2_plans(
            cells=cells,
            image_side=image_side,
            filter_size=filter_size,
            train_images=train_images,
            test_images=test_images,
            **settings,
        )
    ]
    for column, depth in parse_cells(cells, TABLE2):
        if column not in FEATURE_COLUMNS:
            continue
        kind = SIZES[POOLINGS[column]]
        train, test = train_images[kind]["compared"], test_images[kind]
        features = channels * filter_size**2 * (3 + (depth - 2) * channels) + image_side**2 * channels
        tile = min(512.0, max(16.0, feature_gib * GIB / (FLOAT32 * features)))
        # every image's gradients are made once for each block of rows that it meets, and once as a row
        gradients = (train + test) * (1 + train / tile / 2)
        gflop = 3 * forward_gflop(depth, channels, image_side, filter_size) * gradients
        products = 2e-9 * features * (train * train / 2 + train * test)
        units = {"convolution_gflop": gflop, "network_gflop": products}
        one = regression(train, test, units)
        memory = one.memory_gib + min(feature_gib, train * features * FLOAT32 / GIB)
        works += [Work(one.units, memory, one.disk_gib)] * draws
    return total(works)


@work("cntk_convergence")
def convergence(
    *,
    architectures: Sequence[str],
    depths: Sequence[int],
    filter_size: int,
    image_side: int,
    images: int,
    widths: Sequence[int],
    runs: int,
    trained_depth: int,
    trained_widths: Sequence[int],
    trained_runs: int,
    train_images: int,
    test_images: int,
    train_steps: int,
    **_: object,
) -> Work:
    """Gradients of random networks, and full-batch steps; a step also copies the weights three times."""
    gflop = numbers = 0.0
    for kind in architectures:
        window, positions = (1, 1) if kind == "fc" else (filter_size**2, image_side**2)
        inputs = 3 * image_side**2 if kind == "fc" else 3 * window

        def layers(depth: int, width: int, window: int = window, inputs: int = inputs) -> float:
            return width * (inputs + (depth - 2) * width * window)

        random = sum(layers(depth, width) for depth in depths for width in widths)
        gflop += runs * images * random * (6e-9 * positions + 2e-9 * images)
        trained = sum(layers(trained_depth, width) for width in trained_widths)
        gflop += trained_runs * train_steps * trained * (6e-9 * positions * train_images + 30e-9)
        widest = max(layers(depth, width) for depth in depths for width in widths)
        numbers = max(
            numbers, images * widest, (train_images + test_images) * layers(trained_depth, max(trained_widths))
        )
    return Work({"network_gflop": gflop}, DATASET_GIB + 3 * numbers * FLOAT32 / GIB)
