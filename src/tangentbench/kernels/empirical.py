"""Empirical tangent kernels by torch.func: inner products of per-example gradients, batched to fit memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor
from torch.func import grad, vmap

from tangentbench.device import current
from tangentbench.errors import UnknownName
from tangentbench.networks.gated import GatedNets, forward

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
