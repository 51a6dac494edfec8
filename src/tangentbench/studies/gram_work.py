"""Work of planned Gram matrices, whole or tile by tile."""

from __future__ import annotations

from tangentbench.gram.identity import LAYERS, identity, network_of
from tangentbench.gram.limits import DENSE_LIMIT, LANCZOS_STEPS
from tangentbench.gram.plans import TRAIN, GramPlan, KernelPlan
from tangentbench.kernels.network import Network, Size
from tangentbench.studies.work import Work

GIB = 2**30
FLOAT32, FLOAT64 = 4, 8
COLOURS = 3
FLOPS_OF_READING = 50
"""Operations of a matrix product that take as long as reading one entry for a product with a vector; a guess."""


def kernel_units(plan: KernelPlan, entries: float) -> dict[str, float]:
    """What `entries` of a kernel take: a step is one layer at one (pair of) position(s) of one entry."""
    kernel, side = identity(plan.kernel), plan.images.side
    if kernel["name"] == "ntk":
        return {"dense_gflop": 2e-9 * entries * COLOURS * side**2}
    if kernel["name"] == LAYERS:
        network = network_of(kernel["network"])
        averages = any(layer.operation in ("average_pool", "global_average_pool") for layer in network)
        steps = entries * convolution_steps(network, (side, side), power=2 if averages else 1)
        return {"cntk_gap_gstep" if averages else "cntk_flatten_gstep": steps / 1e9}
    pooling = kernel["pooling"]
    steps = entries * (kernel["depth"] - 1) * side ** (4 if pooling == "gap" else 2)
    return {f"cntk_{pooling}_gstep": steps / 1e9}


def convolution_steps(network: Network, size: Size, power: int) -> float:
    """Convolutions times their positions (power 1) or pairs of positions (power 2), in all branches."""
    steps = 0.0
    for layer in network:
        steps += sum(convolution_steps(branch, size, power) for branch in layer.inner())
        size = layer.size_after(size)
        if layer.operation == "convolution":
            steps += float(size[0] * size[1]) ** power
    return steps


def matrices_gib(train: int, test: int) -> float:
    """Half of the symmetric matrix and all of the other, in float32 on disk."""
    return (train * train / 2 + train * test) * FLOAT32 / GIB


def tile_work(plan: GramPlan) -> Work:
    """One tile, one job; memory for the kernel's answer, for what is kept of it and for the images of both sides."""
    side = min(plan.tile, plan.plan.images.train)
    images = 2 * side * plan.plan.images.side**2 * COLOURS * FLOAT32
    values = side * side * (FLOAT64 + 2 * FLOAT32)
    return Work(kernel_units(plan.plan, side * side), (images + values) / GIB, side * side * FLOAT32 / GIB)


def tiled_work(plan: GramPlan) -> Work:
    """All tiles of both matrices together."""
    return Work(kernel_units(plan.plan, plan.plan.entries))


def certificate_work(plan: GramPlan, matrix: str) -> Work:
    """Every tile is read; a symmetric matrix has its eigenvalues computed, all of them or the two ends by Lanczos."""
    rows, columns = plan.plan.shape(matrix)
    tiles_gib = 2 * plan.tile**2 * FLOAT64 / GIB
    if matrix != TRAIN:
        return Work({}, tiles_gib)
    if rows <= DENSE_LIMIT:
        return Work({"eigenvalue_gflop": 4 / 3 * rows**3 / 1e9}, tiles_gib + 3 * rows * rows * FLOAT64 / GIB)
    entries = rows * columns / 2
    vectors_gib = LANCZOS_STEPS * rows * FLOAT64 / GIB
    # one product of the matrix with a vector per step, at each end; with memory for the system to cache the tiles
    gflop = 1e-9 * 2 * LANCZOS_STEPS * FLOPS_OF_READING * entries
    return Work({"dense_gflop": gflop}, tiles_gib + vectors_gib + entries * FLOAT32 / GIB)
