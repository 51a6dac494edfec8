"""The tangent kernel of a finite network between two sets of inputs, by the cheaper of two roads.

Contraction makes the gradients of every example and multiplies them: n k backward passes and n1 n2 k P products, but
the gradients of a block have to fit into memory, and are made again for every block they meet. NTK-vector products
never hold a gradient of two examples at once: for each pair, J(x1) J(x2)^T e is a backward pass at x2 and a tangent
pass at x1. Contraction is cheaper wherever weights are shared by many positions and blocks are large; products win
where P passes the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.func import grad, jvp, vjp, vmap

from tangentbench.errors import UnknownName
from tangentbench.kernels.empirical import MEMORY_BYTES, flattened

METHODS = ("auto", "contraction", "products")
BACKWARD = 2.0
"""Operations of a backward or tangent pass, in forward passes."""

Weights = dict[str, Tensor]
Function = Callable[[Weights, Tensor], Tensor]


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
