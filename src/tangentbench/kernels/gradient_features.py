"""Kernels of random features: inner products of the gradients of one random network (CNTK paper, section 5.2).

The gradients of every layer are written out, which is faster than a derivative of each example and lets a layer's
features be dropped before the next one's are made.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tangentbench.device import current
from tangentbench.networks.ntk_cnn import NtkCnnNets

BATCH = 16
"""Images whose gradients are made together; unfolded patches of a layer are what takes memory."""

Array = NDArray[np.floating]


class GradientKernel:
    """The kernel <d f(x), d f(x')> over the trained weights of one run (kappa and all other runs aside).

    Called as a Gram store calls a kernel: images (n1, h, w, c) and (n2, h, w, c) or None, values (n1, n2). The features
    of the first images, which the next tile of a row has again, are kept.
    """

    def __init__(self, nets: NtkCnnNets, slot: int = 0) -> None:
        if nets.architecture.outputs != 1:
            raise ValueError(f"features are gradients of one output, not of {nets.architecture.outputs}")
        self.nets, self.slot = nets, slot
        self._images: Array | None = None
        self._features: list[Tensor] = []

    @property
    def size(self) -> int:
        """Features an image has."""
        return sum(int(np.prod(shape)) for shape in self.nets.parameters.shapes.values())

    def fitting_tile(self, memory: float) -> int:
        """How many images' features fit into `memory` bytes."""
        return max(BATCH, int(memory // (4 * self.size)))

    def __call__(self, x1: Array, x2: Array | None) -> Array:
        rows = self.features(x1)
        other = x1 if x2 is None else x2
        out = torch.empty(len(x1), len(other), dtype=torch.float64)
        for start in range(0, len(other), BATCH):
            columns = gradients(self.nets, self.slot, as_images(other[start : start + BATCH]))
            # summed layer by layer in double precision: layers differ in size by orders of magnitude
            products = ((row @ column.T).double() for row, column in zip(rows, columns, strict=True))
            out[:, start : start + BATCH] = sum(products, torch.zeros((), dtype=torch.float64, device=current())).cpu()
        return out.numpy()

    def features(self, images: Array) -> list[Tensor]:
        """A matrix (n, features) for each trained layer, the last layer first."""
        if self._images is None or not np.array_equal(self._images, images):
            self._features, self._images = [], None
            parts = [
                list(gradients(self.nets, self.slot, as_images(images[start : start + BATCH])))
                for start in range(0, len(images), BATCH)
            ]
            self._features = [torch.cat(layer) for layer in zip(*parts, strict=True)]
            self._images = images.copy()
        return self._features


def as_images(images: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(images, dtype=np.float32)).to(current())


@torch.no_grad()
def gradients(nets: NtkCnnNets, slot: int, images: Tensor) -> Iterator[Tensor]:
    """d f / d W(h) for images (B, h, w, c), flattened to (B, features), for each trained layer, the last one first.

    With b(h) the derivative of f by the layer's pre-activations, d f / d W(h) sums b(h) times the patch of x(h-1) over
    the positions.
    """
    architecture = nets.architecture
    own = {name: nets.weights(name)[slot].detach().to(images.device) for name in architecture.weight_shapes()}
    trained = set(architecture.trained_names())
    signals, gates = signals_and_gates(nets, own, images)
    top = own[f"weight_{architecture.depth}"][:, 0]
    above, last_features = output_layer(architecture.kind, signals[-1], top)
    if f"weight_{architecture.depth}" in trained:
        yield last_features
    for layer in range(architecture.depth - 1, 0, -1):
        name = f"weight_{layer}"
        below = architecture.layer_scale * above * gates[layer - 1]
        if name in trained:
            yield weight_gradients(signals[layer - 1], below, architecture.filter_size)
        if layer > 1:
            if architecture.convolutional:
                above = F.conv_transpose2d(below, own[name], padding=architecture.filter_size // 2)
            else:
                above = below @ own[name].T


def signals_and_gates(nets: NtkCnnNets, own: dict[str, Tensor], images: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """x(0), ..., x(L), channels first, and where the pre-activations of the layers 1, ..., L are positive."""
    architecture = nets.architecture
    signals = [images.permute(0, 3, 1, 2) if architecture.convolutional else images.flatten(1)]
    gates = []
    for layer in range(1, architecture.depth):
        weights = own[f"weight_{layer}"]
        pre = (
            F.conv2d(signals[-1], weights, padding=architecture.filter_size // 2)
            if architecture.convolutional
            else signals[-1] @ weights
        )
        gates.append(pre > 0)
        signals.append(architecture.layer_scale * torch.relu(pre))
    return signals, gates


def output_layer(kind: str, signal: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """d f / d x(L), broadcast over the batch, and d f / d W(L+1), (B, features)."""
    if kind == "fc":
        return weights.expand_as(signal), signal
    _, channels, height, width = signal.shape
    if kind == "cnn_gap":
        spread = weights[:, None, None].expand(channels, height, width) / (height * width)
        return spread.expand_as(signal), signal.mean(dim=(2, 3))
    # the weights of all positions are stored with the channels last
    by_position = weights.view(height, width, channels).permute(2, 0, 1)
    return by_position.expand_as(signal), signal.permute(0, 2, 3, 1).flatten(1)


def weight_gradients(signal: Tensor, below: Tensor, filter_size: int) -> Tensor:
    """(B, features) from the layer's inputs and the derivatives by its pre-activations."""
    if below.dim() == 2:
        return (signal[:, :, None] * below[:, None, :]).flatten(1)
    patches = F.unfold(signal, filter_size, padding=filter_size // 2)
    return torch.bmm(below.flatten(2), patches.mT).flatten(1)
