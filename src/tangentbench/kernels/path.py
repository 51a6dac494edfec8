"""Kernels of the gates: the neural path kernel, its convolutional counterpart, and the tangent kernel at given gates.

Gates are lists over the hidden layers; leading axes before the examples (runs) are allowed everywhere.

The path kernel of a fully connected network is H = Sigma * Lambda (Lemma 2.1), and Lambda is the product over the
layers of the number of gates on for both examples (Definition C.2): no path is enumerated.

A convolution uses a weight at every position, so a path is taken here as a sequence of weights, one a layer, and its
feature sums the input times the gates over all positions at which the sequence occurs. H(s, s'), the inner product of
these features, then follows a recursion over pairs of positions (p, p'), because two occurrences of one sequence differ
by the same shift at every layer:

    S_0(p, p') = sum over channels of x_s(p) x_s'(p')
    S_l(p, p') = tau_l(p, p') * sum over the window's offsets o of S_(l-1)(p + o, p' + o)
    tau_l(p, p') = number of channels whose gates are on for s at p and for s' at p'

Flattening keeps p = p' (each position has its own weights above it), global average pooling takes the mean over p and
p' independently. With every window of size one and one position this is H = Sigma * Lambda. Propositions 2.1 and 3.1,
Lemma D.1 and hence E[K] = d sigma^(2(d-1)) H hold word for word, since distinct sequences of independent symmetric
weights are uncorrelated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tangentbench.networks.architecture import Architecture, Conv, Dense, Flatten
from tangentbench.networks.scalar_mlp import gram
from tangentbench.theory.paths import Paths


def path_overlap(gates: Sequence[Tensor]) -> Tensor:
    """Lambda(s, s') from gates (..., n, w_l): (..., n, n)."""
    overlap = gram(gates[0])
    for layer in gates[1:]:
        overlap = overlap * gram(layer)
    return overlap


def neural_path_kernel(inputs: Tensor, gates: Sequence[Tensor]) -> Tensor:
    """H = Sigma * Lambda of a fully connected network; `inputs` (..., n, d_in)."""
    return gram(inputs) * path_overlap(gates)


def value_tangent_kernel(inputs: Tensor, weights: Sequence[Tensor], gates: Sequence[Tensor]) -> Tensor:
    """The exact NTK of the values of a bias-free gated network at fixed gates, (..., n, n).

    `inputs` (..., n, d_in), `weights` d matrices (..., w_(l-1), w_l) with one output, `gates` d-1 of (..., n, w_l).
    Each layer contributes the product of two Gram matrices, of its inputs and of the output's derivatives above it.
    """
    hidden = [inputs]
    for weight, gate in zip(weights[:-1], gates, strict=True):
        hidden.append((hidden[-1] @ weight) * gate)
    above = weights[-1].mT * gates[-1]
    kernel = gram(hidden[-1])
    for layer in reversed(range(len(gates))):
        kernel = kernel + gram(hidden[layer]) * gram(above)
        if layer:
            above = (above @ weights[layer].mT) * gates[layer - 1]
    return kernel


def convolutional_path_kernel(architecture: Architecture, inputs: Tensor, gates: Sequence[Tensor]) -> Tensor:
    """H of any architecture by the recursion above; `inputs` (n, h, w, c) or (n, d), gates of one run (n, ...).

    A pair of images needs (h w)^2 numbers, so this is for small images; convolutions have stride 1 and padding "same".
    """
    images = inputs.double()
    if images.dim() == 2:
        images = images[:, None, None, :]
    sums = positional_gram(images)
    remaining = list(gates)
    for layer in architecture.hidden:
        if isinstance(layer, Conv):
            if layer.stride != 1 or layer.padding != "same":
                raise ValueError("the path kernel of a convolution needs stride 1 and padding 'same'")
            sums = shifted_sum(sums, layer.kernel) * positional_gram(remaining.pop(0).double())
        elif isinstance(layer, Dense):
            rows = remaining.pop(0).double()
            sums = sums * gram(rows)[:, :, None, None, None, None]
        elif isinstance(layer, Flatten):
            sums = torch.einsum("stijij->st", sums)[:, :, None, None, None, None]
        else:
            sums = sums.mean(dim=(2, 3, 4, 5), keepdim=True)
    return sums[:, :, 0, 0, 0, 0]


def positional_gram(images: Tensor) -> Tensor:
    """Inner products over the channels for all pairs of positions, (n, n, h, w, h, w)."""
    return torch.einsum("sijc,tklc->stijkl", images, images)


def shifted_sum(sums: Tensor, kernel: int) -> Tensor:
    """The sum over the window's offsets o of S(p + o, p' + o); outside of the image there is nothing."""
    height, width = sums.shape[-2:]
    low, high = (kernel - 1) // 2, kernel // 2
    framed = F.pad(sums, (low, high, low, high, low, high, low, high))
    total = torch.zeros_like(sums)
    for down in range(kernel):
        for right in range(kernel):
            rows, columns = slice(down, down + height), slice(right, right + width)
            total = total + framed[..., rows, columns, rows, columns]
    return total


def path_value_derivatives(weights: Sequence[ArrayLike], paths: Paths) -> NDArray[np.float64]:
    """d v(p) / d theta for all weights and paths (Definition 3.2), shape (d_net, P); for small networks.

    `weights` as in theory.paths; a weight counts in row-major order within its layer.
    """
    layers = [np.asarray(layer, dtype=float) for layer in weights]
    nodes = np.hstack([paths, np.zeros((len(paths), 1), dtype=np.intp)])
    along = np.stack([layer[nodes[:, level], nodes[:, level + 1]] for level, layer in enumerate(layers)])
    blocks = []
    for level, layer in enumerate(layers):
        others = np.delete(along, level, axis=0).prod(axis=0)
        block = np.zeros((layer.size, len(paths)))
        block[nodes[:, level] * layer.shape[1] + nodes[:, level + 1], np.arange(len(paths))] = others
        blocks.append(block)
    return np.vstack(blocks)


def value_kernel(weights: Sequence[ArrayLike], paths: Paths) -> NDArray[np.float64]:
    """The value tangent kernel V = (grad v)^T (grad v) of Definition 3.2, shape (P, P); for small networks."""
    derivatives = path_value_derivatives(weights, paths)
    return np.asarray(derivatives.T @ derivatives)


def label_fit(kernel: Tensor, labels: Tensor, ridge: float = 0.0) -> Tensor:
    """nu = y^T H^-1 y with H scaled to trace one (Figure 3, middle); `kernel` (..., n, n), `labels` (n,), result (...).

    `ridge` adds this share of the mean eigenvalue to the diagonal first.
    """
    kernel, labels = kernel.double(), labels.double()
    count = kernel.shape[-1]
    trace = kernel.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    scaled = kernel / trace + ridge / count * torch.eye(count, dtype=torch.float64)
    solved: Tensor = torch.linalg.solve(scaled, labels.expand(scaled.shape[:-1])[..., None])
    return (labels * solved[..., 0]).sum(-1)
