"""neural-tangents in every mode worth trying, each in a process of its own, so that a race is run against the fastest.

A mode is jax's 64-bit switch (with it on, neural-tangents' *float32* kernels run five times faster on a CPU where they
pool over all positions, and slower where they do not), the precision of the images, and how many pairs are computed in
one call. The kernel is compiled and run once before the clock starts.

Layers are words: conv3 (3 x 3, stride 1, SAME), conv3/2 (stride 2), relu, pool2 (2 x 2 average), gap, flatten, dense.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Request:
    """What is computed: "ntk" or "nngp" of random images, all layers trained."""

    layers: tuple[str, ...]
    kind: str
    side: int
    channels: int
    batches: tuple[int, ...]
    repeats: int
    threads: int
    single_only: bool = True
    """Whether only float32 is tried: a race in float32 against float64 would flatter us."""


@dataclass(frozen=True)
class Measured:
    """Seconds per entry, wall clock and processor, and the mode that took them."""

    wall: float
    processor: float
    x64: bool
    dtype: str
    batch: int

    def __str__(self) -> str:
        return f"{self.dtype}, x64 {'on' if self.x64 else 'off'}, {self.batch} x {self.batch} pairs"


def fastest(request: Request) -> Measured:
    """By the wall clock, over all modes."""
    found = [one for x64 in (False, True) for one in _in_a_process(request, x64)]
    return min(found, key=lambda one: one.wall)


def _in_a_process(request: Request, x64: bool) -> list[Measured]:
    environment = {**os.environ, "OMP_NUM_THREADS": str(request.threads), "JAX_ENABLE_X64": str(int(x64))}
    call = [sys.executable, str(Path(__file__)), json.dumps(asdict(request))]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        # XLA takes the process down for some networks in double precision: that mode is not the fastest then
        print(f"    neural-tangents with x64 {'on' if x64 else 'off'} ended with {done.returncode}", flush=True)
        return []
    return [Measured(**one) for one in json.loads(done.stdout.splitlines()[-1])]


def images(count: int, side: int, channels: int, seed: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, side, side, channels)).astype(dtype)


def _layer(word: str) -> Any:
    from tangentbench.kernels._backends.neural_tangents_compat import stax

    if word.startswith("conv"):
        filter, _, stride = word.removeprefix("conv").partition("/")
        window, strides = (int(filter),) * 2, (int(stride or 1),) * 2
        return stax.Conv(1, window, strides, "SAME", W_std=math.sqrt(2), b_std=None, parameterization="ntk")
    if word.startswith("pool"):
        window = (int(word.removeprefix("pool")),) * 2
        return stax.AvgPool(window, window)
    plain = {"relu": stax.Relu, "gap": stax.GlobalAvgPool, "flatten": stax.Flatten}
    return plain[word]() if word in plain else stax.Dense(1, W_std=1, b_std=None, parameterization="ntk")


def kernel_function(layers: Sequence[str], kind: str) -> Any:
    from tangentbench.kernels._backends.neural_tangents_compat import stax

    _, _, kernel = stax.serial(*map(_layer, layers))
    return lambda x1, x2: kernel(x1, x2, kind)


def _measure(request: Request) -> list[Measured]:
    import jax

    kernel = jax.jit(kernel_function(request.layers, request.kind))
    x64 = bool(jax.config.read("jax_enable_x64"))
    found = []
    for dtype in ("float32",) if request.single_only or not x64 else ("float32", "float64"):
        for batch in request.batches:
            pair = [jax.numpy.asarray(images(batch, request.side, request.channels, n, dtype)) for n in (0, 1)]
            kernel(*pair).block_until_ready()
            walls, processors = [], []
            for _ in range(request.repeats):
                wall, processor = time.perf_counter(), time.process_time()
                kernel(*pair).block_until_ready()
                walls.append(time.perf_counter() - wall)
                processors.append(time.process_time() - processor)
            found.append(Measured(min(walls) / batch**2, min(processors) / batch**2, x64, dtype, batch))
    return found


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    asked.update(layers=tuple(asked["layers"]), batches=tuple(asked["batches"]))
    print(json.dumps([asdict(one) for one in _measure(Request(**asked))]))
