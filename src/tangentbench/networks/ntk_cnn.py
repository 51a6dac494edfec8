"""The CNTK paper's networks in the tangent-kernel parametrisation (sections 3, 4.1, 4.2), many runs as one program.

Weights are standard normal and every hidden layer is scaled, so that the tangent kernel has a limit as width grows:

    fc        x(h) = sqrt(2 / width) relu(W(h) x(h-1)),                 f(x) = <W(L+1), x(L)>
    cnn_v     x(h) = sqrt(2 / (channels q^2)) relu(W(h) * x(h-1)),      f(x) = <W(L+1), x(L)> over all positions
    cnn_gap   the same,                                                 f(x) = <W(L+1), mean of x(L) over the positions>

The trained function is kappa f.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tangentbench.errors import UnknownName
from tangentbench.networks.initialisation import stream
from tangentbench.networks.ops import convolution, dense
from tangentbench.networks.stack import Shape, Stack

KINDS = ("fc", "cnn_v", "cnn_gap")


@dataclass(frozen=True)
class NtkCnnSpec:
    """What the runs of a batch share; `depth` counts the layers of weights, `width` units or channels."""

    kind: str
    depth: int
    width: int
    input_shape: tuple[int, int, int]
    """(height, width, channels)"""
    outputs: int = 1
    filter_size: int = 3
    train_first_last: bool = True

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownName("kind of network", self.kind, KINDS)

    @property
    def convolutional(self) -> bool:
        return self.kind != "fc"

    @property
    def layer_scale(self) -> float:
        window = self.filter_size**2 if self.convolutional else 1
        return math.sqrt(2.0 / (self.width * window))

    def weight_shapes(self) -> dict[str, Shape]:
        """Name and shape of every layer's weights, in the layout of networks/ops.py."""
        height, width, channels = self.input_shape
        below = channels if self.convolutional else height * width * channels
        shapes: dict[str, Shape] = {}
        for layer in range(1, self.depth):
            window = (self.filter_size, self.filter_size)
            shapes[f"weight_{layer}"] = (self.width, below, *window) if self.convolutional else (below, self.width)
            below = self.width
        features = height * width * self.width if self.kind == "cnn_v" else self.width
        return {**shapes, f"weight_{self.depth}": (features, self.outputs)}

    def trained_names(self) -> list[str]:
        names = list(self.weight_shapes())
        return names if self.train_first_last else names[1:-1]


class NtkCnnNets:
    """A batch of R runs; run k is a function of (seed, k)."""

    def __init__(
        self,
        architecture: NtkCnnSpec,
        runs: Sequence[int],
        seed: int,
        *,
        kappa: float = 1.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.architecture, self.kappa = architecture, kappa
        shapes, trained = architecture.weight_shapes(), architecture.trained_names()
        dense_names = [name for name, shape in shapes.items() if len(shape) == 2]
        self.parameters = Stack(
            {name: shapes[name] for name in trained}, len(runs), tracked=True, overwritten=dense_names, dtype=dtype
        )
        frozen = {name: shape for name, shape in shapes.items() if name not in trained}
        self.frozen = Stack(frozen, len(runs), tracked=False, dtype=dtype)
        self.buffers = Stack({}, len(runs), tracked=False, dtype=dtype)
        with torch.no_grad():
            for slot, run in enumerate(runs):
                generator = stream(seed, run)
                for name, shape in shapes.items():
                    self.weights(name)[slot] = torch.randn(shape, generator=generator, dtype=torch.float32)

    def weights(self, name: str) -> Tensor:
        """The weights (R, ...) of a layer, trained or not."""
        return self.parameters[name] if name in self.parameters.tensors else self.frozen[name]

    def keep(self, slots: Sequence[int]) -> None:
        self.parameters.keep(slots)
        self.frozen.keep(slots)
        self.buffers.keep(slots)

    def outputs(self, inputs: Tensor, training: bool = False) -> Tensor:
        """kappa f, (R, B, k), for images (R, B, height, width, channels)."""
        architecture = self.architecture
        signal = inputs if architecture.convolutional else inputs.flatten(2)
        for layer in range(1, architecture.depth):
            weights = self.weights(f"weight_{layer}")
            below = (
                convolution(signal, weights, None, 1, "same")
                if architecture.convolutional
                else dense(signal, weights, None)
            )
            signal = architecture.layer_scale * torch.relu(below)
        if architecture.kind == "cnn_gap":
            signal = signal.mean(dim=(2, 3))
        return self.kappa * dense(signal.flatten(2), self.weights(f"weight_{architecture.depth}"), None)
