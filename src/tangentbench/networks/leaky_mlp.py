"""Bias-free fully connected leaky-ReLU networks of scalar output (thesis (6.2)-(6.4)), many runs as one program.

The weights of a run are one row of a matrix (R, P): layer after layer, each (outputs, inputs) row by row. They are kept
in double precision; a pass over the examples computes in the precision of the inputs.

A pass visits the examples in blocks that stay in the cache and takes every run through a block before the next. Inside
a block each run is six fused calls: on one core a gradient takes 17 ms per run at m = 60000, d = 49, width 64, of which
12 are its two matrix products; batched over runs it takes 50 to 75 ms, for its elementwise steps leave the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tangentbench.datasets import Dataset
from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.networks.mlp_shape import MlpShape, Weights

T = TypeVar("T")

_BLOCK = 2048
"""Examples of a block: 512 KiB of activations at width 64."""
_SHARDS = 4
"""Parts of the examples summed on their own, whatever the number of threads, so that sums do not depend on it."""
_INPUT_LAYERS = ("full_rank", "rank_one")
_WHITE = 1e-3
"""How far X~ X~^T / m may be from a projector."""


@dataclass(frozen=True, eq=False)
class RegressionTask:
    """Whitened inputs, labels of -1 and 1, and the statistics that a linear network needs of them."""

    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    correlation: NDArray[np.float64]
    """Y X~^T / m, shape (d,)."""
    moment: NDArray[np.float64]
    """X~ X~^T / m, shape (d, d): the identity on the span of the inputs."""

    @property
    def samples(self) -> int:
        return len(self.y_train)

    @property
    def s(self) -> float:
        """The norm of the best linear model."""
        return float(np.linalg.norm(self.correlation))

    @property
    def rank(self) -> int:
        """The dimension d of the theorem: that of the span of the inputs."""
        return round(float(np.trace(self.moment)))


def task_of(dataset: Dataset, dtype: torch.dtype = torch.float32) -> RegressionTask:
    """A two-class data set with whitened vectors as a task; class 0 becomes -1 and class 1 becomes 1."""
    if len(dataset.classes) != 2 or dataset.x_train.ndim != 2:
        raise TangentbenchError(f"{dataset.name}: this study needs vectors of two classes (transforms binary, flatten)")
    x = dataset.x_train.astype(np.float64)
    signs = [2.0 * labels - 1.0 for labels in (dataset.y_train, dataset.y_test)]
    moment = x.T @ x / len(x)
    projector_error = np.abs(moment @ moment - moment).max()
    if projector_error > _WHITE:
        raise TangentbenchError(f"{dataset.name}: its inputs are not whitened: add `whiten: {{centre: false}}` to it")
    return RegressionTask(
        x_train=torch.from_numpy(dataset.x_train).to(dtype),
        y_train=torch.from_numpy(signs[0]).to(dtype),
        x_test=torch.from_numpy(dataset.x_test).to(dtype),
        y_test=torch.from_numpy(signs[1]).to(dtype),
        correlation=signs[0] @ x / len(x),
        moment=moment,
    )


def draw(shape: MlpShape, beta: float, input_layer: str, key: Sequence[int]) -> Weights:
    """Initial weights (P,): uniform as PyTorch's Linear has them, each layer scaled to spectral norm beta.

    `rank_one` keeps the first singular pair of the input layer alone. The stream depends on `key` and the shape only:
    runs that differ in beta or in the input layer start from the same draw.
    """
    if input_layer not in _INPUT_LAYERS:
        raise UnknownName("input layer", input_layer, _INPUT_LAYERS)
    generator = np.random.default_rng(np.random.SeedSequence((*key, shape.depth, shape.width, shape.inputs)))
    layers = []
    for position, (rows, columns) in enumerate(shape.layers):
        matrix = generator.uniform(-1.0, 1.0, (rows, columns)) / np.sqrt(columns)
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        if position == 0 and input_layer == "rank_one":
            matrix = values[0] * np.outer(left[:, 0], right[0])
        layers.append(beta / values[0] * matrix)
    return shape.join(layers)


def outputs(shape: MlpShape, weights: Weights, epsilons: Weights, x: Tensor) -> NDArray[np.float64]:
    """f(x) of every run, (R, m), for weights (R, P), nonlinearities (R,) and inputs (m, d)."""
    runs = _prepared(shape, weights, x.dtype)
    slopes = (1.0 - epsilons).tolist()
    result = torch.empty(len(runs), len(x), dtype=x.dtype)

    def evaluate(block: slice) -> None:
        for run, (hidden, last) in enumerate(runs):
            torch.mv(_activations(hidden, x[block], slopes[run])[-1], last, out=result[run, block])

    _in_parallel(evaluate, list(blocks(len(x), _BLOCK)))
    return result.numpy().astype(np.float64)


def velocity(shape: MlpShape, weights: Weights, epsilons: Weights, task: RegressionTask) -> Weights:
    """dW/dt of gradient flow (6.4) on the loss |Y - f(X~)|^2 / 2m, for every run: (R, P)."""
    runs = _prepared(shape, weights, task.x_train.dtype)
    slopes = (1.0 - epsilons).tolist()
    sums = [[[torch.zeros_like(layer) for layer in (*hidden, last)] for hidden, last in runs] for _ in range(_SHARDS)]

    def accumulate(shard: int) -> None:
        totals = sums[shard]
        part = slice(*_shard_edges(task.samples, shard))
        x, y = task.x_train[part], task.y_train[part]
        for block in blocks(len(x), _BLOCK):
            for run, (hidden, last) in enumerate(runs):
                _add_gradient(totals[run], hidden, last, x[block], y[block], slopes[run])

    _in_parallel(accumulate, list(range(_SHARDS)))
    added = [
        [_sum_of(parts) / task.samples for parts in zip(*shards, strict=True)] for shards in zip(*sums, strict=True)
    ]
    return np.stack([np.concatenate(layers) for layers in added])


def _sum_of(tensors: Sequence[Tensor]) -> Weights:
    """Their sum in double precision, flat."""
    return np.asarray(torch.stack(list(tensors)).sum(dim=0, dtype=torch.float64).numpy().ravel())


def linear_velocity(shape: MlpShape, weights: Weights, correlation: Weights, moment: Weights) -> Weights:
    """dW/dt of the linear networks (epsilon = 0) from sufficient statistics alone, (R, P)."""
    layers = shape.split(weights)
    above = [np.broadcast_to(np.eye(1), (len(weights), 1, 1))]
    for layer in reversed(layers[1:]):
        above.append(above[-1] @ layer)
    below = [np.broadcast_to(np.eye(shape.inputs), (len(weights), shape.inputs, shape.inputs))]
    for layer in layers[:-1]:
        below.append(layer @ below[-1] if len(below) > 1 else layer)
    residual = correlation - (layers[-1] @ below[-1]) @ moment
    gradients = []
    for position, top in enumerate(reversed(above)):
        back = residual if position == 0 else residual @ np.swapaxes(below[position], -1, -2)
        gradients.append(np.swapaxes(top, -1, -2) @ back)
    return shape.join(gradients)


def _add_gradient(totals: list[Tensor], hidden: list[Tensor], last: Tensor, x: Tensor, y: Tensor, slope: float) -> None:
    """Add a block's sum of (y - f) df/dW of each layer to `totals`.

    The error runs down without the last layer's weights, which every example shares: they scale the layer below, and
    the gradient's sum, once.
    """
    acts = _activations(hidden, x, slope)
    residual = torch.addmv(y, acts[-1], last, alpha=-1)
    totals[-1].addmv_(acts[-1].T, residual)
    error = residual[:, None].expand_as(acts[-1])
    for position in reversed(range(len(hidden))):
        error = torch.ops.aten.leaky_relu_backward(error, acts[position + 1], slope, True)
        gradient = error.T @ acts[position]
        top = position == len(hidden) - 1
        totals[position] += last[:, None] * gradient if top else gradient
        if position > 0:
            error = error @ (last[:, None] * hidden[position] if top else hidden[position])


def _activations(hidden: list[Tensor], x: Tensor, slope: float) -> list[Tensor]:
    """x and the hidden layers' activations of a block."""
    acts = [x]
    for layer in hidden:
        acts.append(torch.nn.functional.leaky_relu_(acts[-1] @ layer.T, slope))
    return acts


def _prepared(shape: MlpShape, weights: Weights, dtype: torch.dtype) -> list[tuple[list[Tensor], Tensor]]:
    """Hidden layers and last layer (width,) of each run as tensors."""
    layers = [torch.from_numpy(np.ascontiguousarray(layer)).to(dtype) for layer in shape.split(weights)]
    return [([layer[run] for layer in layers[:-1]], layers[-1][run, 0]) for run in range(len(weights))]


def blocks(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def _shard_edges(count: int, shard: int) -> tuple[int, int]:
    return count * shard // _SHARDS, count * (shard + 1) // _SHARDS


def _in_parallel(task: Callable[[T], None], parts: Sequence[T]) -> None:
    """Run the parts on as many threads as torch has, each alone: blocks are too small to be split further."""
    threads = torch.get_num_threads()
    if threads == 1:
        for part in parts:
            task(part)
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(task, parts))
    finally:
        torch.set_num_threads(threads)
