"""Tangent kernels of finite networks: inner products of gradients, by torch.func, batched to fit memory.

`empirical_ntk` is that of any function between its inputs; `finite_ntk` that of two sets of inputs, by the cheaper of
two roads. Contraction makes the gradients of every example and multiplies them: n k backward passes and n1 n2 k P
products, but the gradients of a block have to fit into memory, and are made again for every block they meet. NTK-vector
products never hold a gradient of two examples at once: for each pair, J(x1) J(x2)^T e is a backward pass at x2 and a
tangent pass at x1. Contraction is cheaper wherever weights are shared by many positions and blocks are large; products
win where P passes the memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import grad, jvp, vjp, vmap

from tangentbench.device import current
from tangentbench.errors import UnknownName
from tangentbench.kernels.network import Layer, Weighted, weight_shapes
from tangentbench.networks.gated import GatedNets, forward

Weights = dict[str, Tensor]

MEMORY_BYTES = 512 * 2**20
"""What the gradients held at one time may take."""
OUTPUTS = ("sum", "mean", "each")

Parameters = Mapping[str, Tensor]
Function = Callable[[dict[str, Tensor], Tensor], Tensor]


def empirical_ntk(
    function: Function, parameters: Parameters, inputs: Tensor, *, outputs: str = "sum", memory: int = MEMORY_BYTES
) -> Tensor:
    """K(s, s') = <d f(x_s), d f(x_s')> over `parameters`; f maps (parameters, one input) to k outputs.

    outputs `sum`: the traces of the k x k blocks, (n, n); `mean`: those divided by k; `each`: (k, n, n), one kernel an
    output. Gradients are formed for one output and a block of examples at a time.

    Example:
        K = empirical_ntk(lambda p, x: torch.tanh(x @ p["w"]), {"w": torch.randn(3, 2)}, torch.randn(5, 3))
    """
    if outputs not in OUTPUTS:
        raise UnknownName("way to join outputs", outputs, OUTPUTS)
    parameters = dict(parameters)
    count = function(parameters, inputs[0]).numel()
    size = sum(tensor.numel() for tensor in parameters.values())
    # two blocks of gradients stand side by side
    block = max(1, memory // (2 * size * inputs.element_size()))
    kernels = [kernel_of_output(function, parameters, inputs, output, block) for output in range(count)]
    if outputs == "each":
        return torch.stack(kernels)
    total = torch.stack(kernels).sum(dim=0)
    return total / count if outputs == "mean" else total


def kernel_of_output(
    function: Function, parameters: dict[str, Tensor], inputs: Tensor, output: int, block: int
) -> Tensor:
    def chosen(tensors: dict[str, Tensor], example: Tensor) -> Tensor:
        return function(tensors, example)[output]

    gradients = vmap(grad(chosen), in_dims=(None, 0))
    kernel = inputs.new_zeros(len(inputs), len(inputs))
    starts = range(0, len(inputs), block)
    for start in starts:
        left = flattened(gradients(parameters, inputs[start : start + block]))
        for other in (one for one in starts if one <= start):
            right = left if other == start else flattened(gradients(parameters, inputs[other : other + block]))
            piece = left @ right.T
            kernel[start : start + block, other : other + block] = piece
            kernel[other : other + block, start : start + block] = piece.T
    return kernel


def flattened(gradients: Mapping[str, Tensor]) -> Tensor:
    """Per-example gradients side by side, (n, P)."""
    parts = list(gradients.values())
    return torch.cat([part.reshape(len(part), math.prod(part.shape[1:])) for part in parts], dim=1)


def gated_function(nets: GatedNets, held: Parameters) -> Function:
    """One run of `nets` as a function of some of its parameters, the others `held`."""

    def outputs(tensors: dict[str, Tensor], example: Tensor) -> Tensor:
        stacked = {name: tensor[None] for name, tensor in {**held, **tensors}.items()}
        return forward(nets.architecture, nets.gating, stacked, example[None, None])[0, 0]

    return outputs


def gated_ntk(
    nets: GatedNets,
    slot: int,
    inputs: Tensor,
    prefixes: Iterable[str] = ("value_", "feature_"),
    *,
    outputs: str = "sum",
) -> Tensor:
    """The tangent kernel of one run over the parameters whose names begin with one of `prefixes` (Proposition 4.1).

    ("value_",) gives K^V, ("feature_",) K^F, both together their sum. Frozen features have no part in it. It is
    computed on the process's device and returned where the inputs are.
    """
    place = current()
    own = {name: tensor.to(place) for name, tensor in (nets.parameters.of_run(slot) | nets.frozen.of_run(slot)).items()}
    varied = {name: own[name] for name in nets.parameters.tensors if name.startswith(tuple(prefixes))}
    held = {name: tensor for name, tensor in own.items() if name not in varied}
    kernel = empirical_ntk(gated_function(nets, held), varied, inputs.to(place), outputs=outputs)
    return kernel.to(inputs.device)


METHODS = ("auto", "contraction", "products")
BACKWARD = 2.0
"""Operations of a backward or tangent pass, in forward passes."""


@dataclass(frozen=True)
class Cost:
    """Operations and bytes of one way to the kernel of n1 x n2 pairs."""

    method: str
    operations: float
    memory: float


def costs(
    n1: int,
    n2: int,
    outputs: int,
    weights: int,
    forward: float,
    memory: int,
    bytes_each: int = 4,
    symmetric: bool = False,
) -> list[Cost]:
    """Both ways, the cheaper first.

    weights: P. forward: operations of the network on one input. memory: bytes that gradients may take. symmetric: both
    sets are the same, and blocks below the diagonal are mirrored.
    """
    gradient = (1 + BACKWARD) * forward
    block = block_size(weights, memory, bytes_each)
    # the rows of a block are made once, the columns once for every block of rows
    blocks = -(-n1 // block)
    again, pairs = (blocks - 1) / 2 if symmetric else blocks, n1 * n2 * (1 + 1 / blocks) / 2 if symmetric else n1 * n2
    contraction = outputs * (gradient * (n1 + again * n2) + 2.0 * pairs * weights)
    products = n1 * n2 * outputs * (gradient + (1 + BACKWARD) * forward)
    held = 2.0 * min(block, max(n1, n2)) * weights * bytes_each
    both = [Cost("contraction", contraction, held), Cost("products", products, 3.0 * weights * bytes_each)]
    # contraction needs two gradients at least
    fitting = [one for one in both if one.memory <= max(memory, 3.0 * weights * bytes_each)]
    return sorted(fitting, key=lambda one: one.operations)


def block_size(weights: int, memory: int, bytes_each: int) -> int:
    return max(1, memory // (2 * weights * bytes_each))


def finite_ntk(
    function: Function,
    weights: Weights,
    x1: Tensor,
    x2: Tensor | None = None,
    *,
    forward_operations: float,
    method: str = "auto",
    memory: int = MEMORY_BYTES,
) -> tuple[Tensor, Cost]:
    """The mean over outputs of <d f_j(x), d f_j(x')> (n1, n2), and the cost of the way that was taken.

    function: (weights, inputs (n, ...)) to outputs (n, k). x2 None is x1.
    """
    if method not in METHODS:
        raise UnknownName("way to the finite kernel", method, METHODS)
    other = x1 if x2 is None else x2
    outputs = function(weights, x1[:1]).shape[1]
    size = sum(tensor.numel() for tensor in weights.values())
    known = costs(
        len(x1), len(other), outputs, size, forward_operations, memory, x1.element_size(), symmetric=x2 is None
    )
    chosen = known[0] if method == "auto" else next(one for one in known if one.method == method)
    if chosen.method == "products":
        return products(function, weights, x1, other, outputs), chosen
    block = block_size(size, memory, x1.element_size())
    total = sum(contraction(function, weights, x1, x2, output, block) for output in range(outputs))
    assert isinstance(total, Tensor)
    return total / outputs, chosen


def contraction(function: Function, weights: Weights, x1: Tensor, x2: Tensor | None, output: int, block: int) -> Tensor:
    def chosen(tensors: Weights, example: Tensor) -> Tensor:
        return function(tensors, example[None])[0, output]

    gradients = vmap(grad(chosen), in_dims=(None, 0))
    other = x1 if x2 is None else x2
    kernel = x1.new_empty(len(x1), len(other))
    for start in range(0, len(x1), block):
        rows = flattened(gradients(weights, x1[start : start + block]))
        for beside in range(start if x2 is None else 0, len(other), block):
            same = x2 is None and beside == start
            columns = rows if same else flattened(gradients(weights, other[beside : beside + block]))
            piece = rows @ columns.T
            kernel[start : start + block, beside : beside + block] = piece
            if x2 is None:
                kernel[beside : beside + block, start : start + block] = piece.T
    return kernel


def products(function: Function, weights: Weights, x1: Tensor, x2: Tensor, outputs: int) -> Tensor:
    """For each x' and output j, g = d f_j(x'); then d f_j(x) . g is one tangent pass at each x."""
    kernel = x1.new_zeros(len(x1), len(x2))
    for column, other in enumerate(x2):
        pull = vjp(outputs_at(function, other), weights)[1]
        for output in range(outputs):
            direction = x1.new_zeros(outputs)
            direction[output] = 1.0
            (along,) = pull(direction)
            for row, example in enumerate(x1):
                kernel[row, column] += jvp(outputs_at(function, example), (weights,), (along,))[1][output]
    return kernel / outputs


def outputs_at(function: Function, example: Tensor) -> Callable[[Weights], Tensor]:
    def outputs(tensors: Weights) -> Tensor:
        return function(tensors, example[None])[0]

    return outputs


def initial_weights(network: Sequence[Layer], shape: tuple[int, int, int], seed: int) -> Weights:
    """N(0, 1) weights of a network of layers for images of `shape` = (height, width, channels)."""
    generator = torch.Generator().manual_seed(seed)
    sizes = dict(weight_shapes(network, shape[:2], shape[2]))
    return {name: torch.randn(size, generator=generator) for name, size in sizes.items()}


def trained_weights(network: Sequence[Layer], weights: Weights) -> tuple[Weights, Weights]:
    """The weights that are trained, over which a tangent kernel is taken, and those that are held."""
    frozen = set(_frozen(network, "layer"))
    return (
        {name: tensor for name, tensor in weights.items() if name not in frozen},
        {name: tensor for name, tensor in weights.items() if name in frozen},
    )


def _frozen(layers: Sequence[Layer], path: str) -> Iterable[str]:
    for number, layer in enumerate(layers):
        name = f"{path}_{number}"
        if isinstance(layer, Weighted) and not layer.trained:
            yield from (name, f"{name}_bias")
        for branch, part in zip(layer.inner(), ("main", "shortcut"), strict=False):
            yield from _frozen(branch, f"{name}_{part}")
