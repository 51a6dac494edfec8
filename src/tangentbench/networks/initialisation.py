"""How weights are drawn: each run from its own stream, whatever other runs are drawn with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from tangentbench.errors import UnknownName
from tangentbench.networks.stack import Shape, Stack


def stream(*key: int) -> torch.Generator:
    """A generator whose numbers are a function of `key`."""
    state = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
    return torch.Generator().manual_seed(state)


def glorot_uniform(shape: Shape, generator: torch.Generator) -> Tensor:
    """Keras' default: uniform in +-sqrt(6 / (fan in + fan out)); a convolution's fans count its window."""
    window = math.prod(shape[2:])
    limit = math.sqrt(6.0 / (window * (shape[0] + shape[1])))
    return (2 * torch.rand(shape, generator=generator) - 1) * limit


def random_signs(shape: Shape, generator: torch.Generator) -> Tensor:
    """+1 or -1 with equal chances (Assumption 5.1)."""
    return 2.0 * torch.randint(0, 2, shape, generator=generator) - 1.0


DISTRIBUTIONS: dict[str, Callable[[Shape, torch.Generator], Tensor]] = {
    "glorot_uniform": glorot_uniform,
    "bernoulli": random_signs,
}


def draw(stack: Stack, distribution: str, runs: Sequence[int], seed: int, *, part: int = 0, scale: float = 1.0) -> None:
    """Fill the weights of `stack` with `scale` times draws from `distribution`, and its biases with zeros.

    Run k is a function of (seed, k, part) alone; `part` tells apart networks that one run needs.
    """
    if distribution not in DISTRIBUTIONS:
        raise UnknownName("initialisation", distribution, DISTRIBUTIONS)
    with torch.no_grad():
        for slot, run in enumerate(runs):
            generator = stream(seed, run, part)
            for name, shape in stack.shapes.items():
                stack[name][slot] = (
                    0.0 if name.startswith("bias") else scale * DISTRIBUTIONS[distribution](shape, generator)
                )
