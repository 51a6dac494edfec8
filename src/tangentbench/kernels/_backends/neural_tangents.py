"""The same kernels from neural-tangents: slow, independent, the oracle of the tests and the rival of the benchmarks.

It computes in a process of its own, which compiles once per network and shape: XLA's compiled code takes the process
down on some networks (Myrtle in float64 at 16 x 16 and 32 x 32), and then only a sentence is left of it.
"""

from __future__ import annotations

import functools
import json
import math
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tangentbench.errors import TangentbenchError
from tangentbench.kernels._backends.contract import Values
from tangentbench.kernels.network import (
    ActivationLayer,
    AveragePool,
    InvalidKernelInput,
    Layer,
    Residual,
    Size,
    Weighted,
    description,
    mixes_positions,
)

BATCH = {True: 2, False: 64}
"""Images of a side that are computed together, where all positions meet and where only equal ones do."""
CLOSED = {"erf": "Erf", "exponential": "Exp", "identity": "Identity"}


class OracleFailed(TangentbenchError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"neural-tangents {reason}: use another backend, other sizes or dtype='float32'")


def refusal(trunk: Sequence[Layer], gather: Layer, size: Size) -> str | None:
    return None


def sums(
    x1: np.ndarray,
    x2: np.ndarray | None,
    trunk: Sequence[Layer],
    gather: Layer,
    taps: Sequence[int],
    *,
    threads: int = 1,
    doubtful_sine: float = 0.0,
) -> Values:
    """As the contract says, with no doubts: what float32 loses here is neural-tangents' own."""
    second = x1 if x2 is None else x2
    out = np.zeros((2, len(taps), len(x1), len(second)))
    batch = BATCH[gather.operation != "flatten" or mixes_positions(trunk)]
    for i in range(0, len(x1), batch):
        for j in range(0, len(second), batch):
            rows, columns = x1[i : i + batch], second[j : j + batch]
            out[:, :, i : i + batch, j : j + batch] = asked((rows, columns, tuple(trunk), gather, tuple(taps)))
    return Values(out[0], out[1], np.zeros_like(out[1]))


@functools.cache
def worker() -> subprocess.Popen[bytes]:
    """The process, which lives as long as this one."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )


def asked(task: tuple[Any, ...]) -> np.ndarray:
    process = worker()
    assert process.stdin is not None and process.stdout is not None
    try:
        pickle.dump(task, process.stdin)
        process.stdin.flush()
        answer = pickle.load(process.stdout)
    except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
        worker.cache_clear()
        raise OracleFailed(f"ended its process on this network (code {process.wait()})") from error
    if isinstance(answer, str):
        raise OracleFailed(f"refused this network ({answer})")
    return np.asarray(answer)


def serve() -> None:
    """What the process does: tasks from standard input, answers to what was standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            x1, x2, trunk, gather, taps = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: Any = computed(x1, x2, trunk, gather, taps)
        except Exception as error:
            answer = str(error).partition("\n")[0]
        pickle.dump(answer, answers)
        answers.flush()


def computed(
    x1: np.ndarray, x2: np.ndarray, trunk: tuple[Layer, ...], gather: Layer, taps: tuple[int, ...]
) -> np.ndarray:
    """NNGP and NTK, float64 (2, taps, n1, n2), in this process."""
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(x1.dtype == np.float64), warnings.catch_warnings():
        # neural-tangents cannot see that branches have weights of their own; network.checked has
        warnings.filterwarnings("ignore", message=".*FanIn.*")
        first, second = (jnp.asarray(x.transpose(0, 2, 3, 1)) for x in (x1, x2))
        values = compiled(trunk, gather, taps)(first, second)
        return np.asarray(values, dtype=np.float64)


COMPILED: dict[str, Callable[[Any, Any], Any]] = {}
"""By what is computed; jax compiles each once for every shape and precision."""


def compiled(trunk: tuple[Layer, ...], gather: Layer, taps: tuple[int, ...]) -> Callable[[Any, Any], Any]:
    key = json.dumps([description((*trunk, gather)), taps])
    if key not in COMPILED:
        COMPILED[key] = traced(trunk, gather, taps)
    return COMPILED[key]


def traced(trunk: tuple[Layer, ...], gather: Layer, taps: tuple[int, ...]) -> Callable[[Any, Any], Any]:
    import jax
    import jax.numpy as jnp

    layers = [kernel_of(layer) for layer in trunk]
    end = kernel_of(gather)

    def values(x1: Any, x2: Any) -> Any:
        state, found = started(x1, x2, diagonal=gather.operation == "flatten" and not mixes_positions(trunk)), {}
        for done in range(len(layers) + 1):
            if done in taps:
                gathered = end(state)
                found[done] = jnp.stack([gathered.nngp, gathered.ntk])
            if done < len(layers):
                state = layers[done](state)
        return jnp.stack([found[tap] for tap in taps], axis=1)

    return jax.jit(values)


def started(x1: Any, x2: Any, *, diagonal: bool) -> Any:
    """Covariances of the pixels, as neural-tangents holds them."""
    from tangentbench.kernels._backends.neural_tangents_compat import stax

    _, _, same = stax.Identity()
    return same(x1, x2, diagonal_spatial=diagonal)


def kernel_of(layer: Layer) -> Callable[[Any], Any]:
    """A layer's function of covariances; a frozen one gives its own part of the tangent kernel back."""
    if isinstance(layer, Residual):
        from tangentbench.kernels._backends.neural_tangents_compat import stax

        _, _, added = stax.FanInSum()
        branches = [[kernel_of(inner) for inner in branch] for branch in layer.inner()]

        def summed(state: Any) -> Any:
            ends = []
            for branch in branches:
                end = state
                for one in branch:
                    end = one(end)
                ends.append(end)
            return added(ends)

        return summed
    _, _, kernel = stax_layer(layer)
    frozen = isinstance(layer, Weighted) and not layer.trained

    def through(state: Any) -> Any:
        out = kernel(state)
        return out.replace(ntk=out.ntk - out.nngp) if frozen else out

    return through


def stax_layer(layer: Layer) -> Any:
    """neural-tangents' layer of the same name."""
    from tangentbench.kernels._backends.neural_tangents_compat import stax

    if isinstance(layer, ActivationLayer):
        if layer.slope is not None:
            return stax.LeakyRelu(layer.slope) if layer.slope else stax.Relu()
        name = layer.record.name
        if name not in CLOSED:
            raise InvalidKernelInput(f"it has no closed form of {name}")
        return getattr(stax, CLOSED[name])()
    if isinstance(layer, Weighted):
        about = layer.described()
        options = {
            "W_std": math.sqrt(layer.weight_variance),
            "b_std": math.sqrt(layer.bias_variance) if layer.bias_variance else None,
            "parameterization": "ntk",
        }
        if layer.operation == "dense":
            return stax.Dense(1, **options)
        return stax.Conv(1, (about["filter"],) * 2, (about["stride"],) * 2, "SAME", **options)
    if isinstance(layer, AveragePool):
        return stax.AvgPool((layer.window,) * 2, (layer.stride,) * 2, "SAME" if layer.padded else "VALID")
    return stax.GlobalAvgPool() if layer.operation == "global_average_pool" else stax.Flatten()


def kernel_function(network: Sequence[Layer], kind: str) -> Callable[[Any, Any], Any]:
    """A function of two image batches (n, height, width, channels) in this process, for timing; not compiled."""
    layers = [kernel_of(layer) for layer in network]
    at = next(number for number, layer in enumerate(network) if layer.ends_positions)
    diagonal = network[at].operation == "flatten" and not mixes_positions(network[:at])

    def values(x1: Any, x2: Any) -> Any:
        state = started(x1, x2, diagonal=diagonal)
        for layer in layers:
            state = layer(state)
        return getattr(state, kind)

    return values


if __name__ == "__main__":
    serve()
