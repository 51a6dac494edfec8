"""The kernels that are timed: analytic ones from neural-tangents and from our own code, and a finite network's.

A regime is asked for rectangles of its kernel matrix and says how many operations that takes.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from tangentbench.device import current
from tangentbench.kernels.choice import Backend
from tangentbench.kernels.exact import Kind, exact
from tangentbench.kernels.finite import Weights, finite_ntk, initial_weights
from tangentbench.kernels.network import Network, covariance_operations, forward_operations, through
from tangentbench.studies.registry import Context
from tangentbench.studies.survey.settings import FINITE, Kernel, Regression, Way

Float64 = NDArray[np.float64]
GIB = 2**30


class Regime(Protocol):
    """One kernel, computed in one way."""

    preparation: float
    """Seconds spent before the first entry: compilation, and nothing else."""

    def kernel(self, x1: np.ndarray, x2: np.ndarray | None) -> Float64:
        """(n1, n2) for images (n, side, side, channels); x2 None is x1."""
        ...

    def operations(self, n1: int, n2: int, symmetric: bool) -> float: ...

    def start(self, images: np.ndarray) -> Float64 | None:
        """Outputs before training, None where they are zero."""
        ...


class NeuralTangents:
    """neural-tangents, compiled, in square batches as in the thesis; it computes both halves of a symmetric matrix."""

    def __init__(self, network: Network, kind: str, shape: tuple[int, int, int], batch: int) -> None:
        import jax

        from tangentbench.kernels._backends.neural_tangents import kernel_function

        self.batch = batch
        example = np.zeros((batch, *shape), np.float32)
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*FanIn.*")
            self.compiled = jax.jit(kernel_function(network, kind)).lower(example, example).compile()
        self.preparation = time.perf_counter() - begin
        counted: dict[str, Any] = self.compiled.cost_analysis() or {}
        self.batch_operations = float(counted.get("flops", 0.0)) + float(counted.get("transcendentals", 0.0))

    def kernel(self, x1: np.ndarray, x2: np.ndarray | None) -> Float64:
        other = x1 if x2 is None else x2
        out = np.empty((len(x1), len(other)))
        for i in range(0, len(x1), self.batch):
            for j in range(0, len(other), self.batch):
                rows, columns = x1[i : i + self.batch], other[j : j + self.batch]
                values = np.asarray(self.compiled(_full(rows, self.batch), _full(columns, self.batch)))
                out[i : i + self.batch, j : j + self.batch] = values[: len(rows), : len(columns)]
        return out

    def operations(self, n1: int, n2: int, symmetric: bool) -> float:
        return -(-n1 // self.batch) * -(-n2 // self.batch) * self.batch_operations

    def start(self, images: np.ndarray) -> Float64 | None:
        return None


def _full(images: np.ndarray, batch: int) -> np.ndarray:
    """A batch of exactly the compiled size; the last image fills it up."""
    missing = batch - len(images)
    return images if not missing else np.concatenate([images, np.repeat(images[-1:], missing, axis=0)])


class Ours:
    """The native core, or the same recursion in torch; half of a symmetric matrix."""

    preparation = 0.0

    def __init__(
        self, network: Network, kind: Kind, shape: tuple[int, int, int], backend: Backend, threads: int
    ) -> None:
        self.network, self.kind, self.backend, self.threads = network, kind, backend, threads
        self.entry_operations = covariance_operations(network, *shape, tangent=kind == "ntk")

    def kernel(self, x1: np.ndarray, x2: np.ndarray | None) -> Float64:
        values = exact(x1, x2, self.network, self.kind, backend=self.backend, threads=self.threads)
        return np.asarray(values, dtype=np.float64)

    def operations(self, n1: int, n2: int, symmetric: bool) -> float:
        return self.entry_operations * (n1 * (n1 + 1) / 2 if symmetric else n1 * n2)

    def start(self, images: np.ndarray) -> Float64 | None:
        return None


class Finite:
    """The tangent kernel of one random network, by torch.func."""

    preparation = 0.0

    def __init__(self, network: Network, shape: tuple[int, int, int], seed: int, memory: int) -> None:
        self.network, self.memory = network, memory
        drawn = initial_weights(network, shape, seed)
        self.weights: Weights = {name: tensor.to(current()) for name, tensor in drawn.items()}
        self.forward = forward_operations(network, *shape)
        self.spent = 0.0
        self.method = ""
        # the first call of torch.func loads what later ones have: seconds that no training set size explains
        self.kernel(np.zeros((2, *shape), np.float32), None)

    def outputs(self, weights: Weights, images: torch.Tensor) -> torch.Tensor:
        return through(self.network, weights, images)

    def kernel(self, x1: np.ndarray, x2: np.ndarray | None) -> Float64:
        first, second = _as_tensor(x1), None if x2 is None else _as_tensor(x2)
        values, cost = finite_ntk(
            self.outputs, self.weights, first, second, forward_operations=self.forward, memory=self.memory
        )
        self.spent, self.method = cost.operations, cost.method
        return values.double().cpu().numpy()

    def operations(self, n1: int, n2: int, symmetric: bool) -> float:
        """Of the kernel computed last, by the cost model that chose its method."""
        return self.spent

    def start(self, images: np.ndarray) -> Float64 | None:
        with torch.no_grad():
            return self.outputs(self.weights, _as_tensor(images)).double().cpu().numpy()


def _as_tensor(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).to(current())


def regime(
    settings: Regression, network: Network, kernel: Kernel, way: Way, shape: tuple[int, int, int], context: Context
) -> Regime:
    if kernel == "empirical_ntk":
        return Finite(network, shape, context.seed, int(settings.finite_gib * GIB))
    if way == "neural_tangents":
        return NeuralTangents(network, kernel, shape, settings.batch_size)
    assert way != FINITE, "only the empirical kernel is a finite network's"
    return Ours(network, kernel, shape, way, context.threads)
