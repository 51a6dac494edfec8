"""Work of the CNTK study's artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tangentbench.gram.plans import KernelPlan
from tangentbench.studies.cntk.cells import Cell
from tangentbench.studies.cntk.networks import random_feature_network, searched_network, wide_network
from tangentbench.studies.cntk.plans import table1_plans, table2_plans, vanilla_plans
from tangentbench.studies.cntk.settings import Convergence, Table1, Table2, VanillaFull
from tangentbench.studies.gram_work import kernel_units, matrices_gib
from tangentbench.studies.work import Work, summed_units, work

GIB = 2**30
FLOAT32 = 4
COLOURS, CLASSES = 3, 10
DATASET_GIB = 0.75
"""All of CIFAR-10 in float32; smaller sets are counted as much."""
TRAINING_GIB = 1.0
LARGEST_FEATURE_TILE, SMALLEST_FEATURE_TILE = 512.0, 16.0
UPDATE_OPERATIONS = 30e-9
"""GFLOP that could be done while a step of gradient descent copies one weight three times."""


def _one_after_the_other(works: Sequence[Work]) -> Work:
    """One job that does all of them and removes the matrices of each before the next."""
    memory = max((one.memory_gib for one in works), default=0.0)
    return Work(summed_units(works), memory, max((one.disk_gib for one in works), default=0.0))


def _regression(train: int, test: int, units: Mapping[str, float]) -> Work:
    """A factor in float64 in memory beside matrices on disk, of which half the square one is kept."""
    factor_gib = train * train * 8 / 2 / GIB
    gflop = {"cholesky_gflop": train**3 / 3e9}
    return Work({**units, **gflop}, DATASET_GIB + 1.1 * factor_gib, matrices_gib(train, test))


def exact_kernel(plan: KernelPlan) -> Work:
    return _regression(plan.images.train, plan.images.test, kernel_units(plan, plan.entries))


@work("cntk_table1")
def networks_and_kernels(settings: Table1) -> Work:
    works = [exact_kernel(plan) for plan in table1_plans(settings)]
    works += [_searched(settings, cell) for cell in settings.all_cells if cell.column.method == "network"]
    return _one_after_the_other(works)


def _searched(settings: Table1, cell: Cell) -> Work:
    """Forward and backward on the training images, forward on the test images, for every choice of the search."""
    search, images = settings.networks, settings.image_choice(cell.column)
    passes = 3 * images.train + images.test
    trainings = search.epochs * search.runs * len(search.learning_rates) * len(search.kappas)
    networks = [searched_network(settings, cell, channels, CLASSES, COLOURS) for channels in search.channels]
    forward = sum(network.forward_operations() for network in networks)
    return Work({"convolution_gflop": forward / 1e9 * trainings * passes}, DATASET_GIB + TRAINING_GIB)


@work("cntk_vanilla_full")
def vanilla_kernel(settings: VanillaFull) -> Work:
    return _one_after_the_other([exact_kernel(plan) for plan in vanilla_plans(settings)])


@work("cntk_table2")
def exact_against_random_features(settings: Table2) -> Work:
    works = [exact_kernel(plan) for plan in table2_plans(settings)]
    for cell in settings.all_cells:
        if cell.column.method == "random features":
            works += [_random_features(settings, cell)] * settings.draws
    return _one_after_the_other(works)


def _random_features(settings: Table2, cell: Cell) -> Work:
    """Every image's gradients are computed once for each block of rows that it meets, and once as a row."""
    pooling = cell.column.pooling
    train, test = settings.train_counts(pooling)["compared"], settings.test_count(pooling)
    network = random_feature_network(settings, cell, COLOURS)
    features = network.trained_parameters
    fitting = settings.feature_gib * GIB / (FLOAT32 * features)
    tile = min(LARGEST_FEATURE_TILE, max(SMALLEST_FEATURE_TILE, fitting))
    gradients = (train + test) * (1 + train / tile / 2)
    products = 2e-9 * features * (train * train / 2 + train * test)
    one = _regression(
        train,
        test,
        {"convolution_gflop": 3e-9 * network.forward_operations() * gradients, "network_gflop": products},
    )
    memory = one.memory_gib + min(settings.feature_gib, train * features * FLOAT32 / GIB)
    return Work(one.units, memory, one.disk_gib)


@work("cntk_convergence")
def convergence(settings: Convergence) -> Work:
    """Gradients of random networks with their products, and steps of full-batch descent."""
    images, trained = settings.images, settings.trained
    gflop = numbers = 0.0
    for kind in settings.architectures:
        for depth in settings.depths:
            for width in settings.widths:
                network = wide_network(settings, kind, depth, width, COLOURS)
                parameters = network.hidden_parameters
                gflop += settings.runs * images * (3e-9 * network.forward_operations() + 2e-9 * images * parameters)
                numbers = max(numbers, images * parameters)
        for width in trained.widths:
            network = wide_network(settings, kind, trained.depth, width, COLOURS)
            parameters = network.hidden_parameters
            step = 3e-9 * network.forward_operations() * trained.train_images + UPDATE_OPERATIONS * parameters
            gflop += trained.runs * trained.steps * step
            numbers = max(numbers, (trained.train_images + trained.test_images) * parameters)
    return Work({"network_gflop": gflop}, DATASET_GIB + 3 * numbers * FLOAT32 / GIB)
