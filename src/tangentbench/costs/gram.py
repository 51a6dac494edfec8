"""Work of planned Gram matrices, whole or tile by tile."""

from __future__ import annotations

from tangentbench.costs.model import Work
from tangentbench.grams import GramPlan, KernelPlan

GIB = 2**30
FLOAT32, FLOAT64 = 4, 8
COLOURS = 3


def kernel_units(plan: KernelPlan, entries: float) -> dict[str, float]:
    """What `entries` of a kernel take: a step is one layer at one (pair of) position(s) of one entry."""
    kernel, side = plan.kernel, plan.images.side
    if kernel["name"] == "ntk":
        return {"dense_gflop": 2e-9 * entries * COLOURS * side**2}
    pooling = kernel.get("pooling", "gap")
    steps = entries * (kernel["depth"] - 1) * side ** (4 if pooling == "gap" else 2)
    return {f"cntk_{pooling}_gstep": steps / 1e9}


def matrices_gib(train: int, test: int) -> float:
    """Half of the symmetric matrix and all of the other, in float32 on disk."""
    return (train * train / 2 + train * test) * FLOAT32 / GIB


def tile_work(plan: GramPlan) -> Work:
    """One tile, one job: the kernel's answer and what is kept of it, the images of both sides."""
    side = min(plan.tile, plan.plan.images.train)
    images = 2 * side * plan.plan.images.side**2 * COLOURS * FLOAT32
    values = side * side * (FLOAT64 + 2 * FLOAT32)
    return Work(kernel_units(plan.plan, side * side), (images + values) / GIB, side * side * FLOAT32 / GIB)
