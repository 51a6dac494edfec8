"""The CNTK paper's networks in the tangent-kernel parametrisation (sections 3, 4.1, 4.2), many runs as one program.

Weights are standard normal and every hidden layer is scaled, so that the tangent kernel has a limit as width grows:

    fc        x(h) = sqrt(2 / width) relu(W(h) x(h-1)),                 f(x) = <W(L+1), x(L)>
    cnn_v     x(h) = sqrt(2 / (channels q^2)) relu(W(h) * x(h-1)),      f(x) = <W(L+1), x(L)> over all positions
    cnn_gap   the same,                                                 f(x) = <W(L+1), mean of x(L) over the positions>

The trained function is kappa f.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tangentbench.networks.initialisation import stream
from tangentbench.networks.ntk_cnn_spec import NtkCnnSpec
from tangentbench.networks.ops import convolution, dense
from tangentbench.networks.stack import Stack


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
