"""The networks of the CNTK paper as data (networks/ntk_cnn.py has their equations): no torch here."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tangentbench.errors import UnknownName

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

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every layer's weights, as the layers of networks/ops.py want them."""
        height, width, channels = self.input_shape
        below = channels if self.convolutional else height * width * channels
        shapes: dict[str, tuple[int, ...]] = {}
        for layer in range(1, self.depth):
            window = (self.filter_size, self.filter_size)
            shapes[f"weight_{layer}"] = (self.width, below, *window) if self.convolutional else (below, self.width)
            below = self.width
        features = height * width * self.width if self.kind == "cnn_v" else self.width
        return {**shapes, f"weight_{self.depth}": (features, self.outputs)}

    def trained_names(self) -> list[str]:
        names = list(self.weight_shapes())
        return names if self.train_first_last else names[1:-1]

    @property
    def trained_parameters(self) -> int:
        shapes = self.weight_shapes()
        return sum(math.prod(shapes[name]) for name in self.trained_names())

    @property
    def hidden_parameters(self) -> int:
        """The weights of all layers but the last."""
        *hidden, _ = self.weight_shapes().values()
        return sum(math.prod(shape) for shape in hidden)

    def forward_operations(self) -> float:
        """Floating-point operations of the hidden layers on one image; a multiplication and an addition are two.

        The last layer, a few hundredths of them at most, is left out.
        """
        height, width, _ = self.input_shape
        return 2.0 * self.hidden_parameters * (height * width if self.convolutional else 1)
