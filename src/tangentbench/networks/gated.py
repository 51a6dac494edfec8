"""Deep gated networks (section 4, Figure 2, Table 3) and ReLU networks, many runs as one program.

A value network carries the signal, z(l) = q(l) * G(l); the gates G(l) come from the pre-activations q^F(l) of a feature
network, or from its own where there is none, which is the ReLU network of Table 1:

    gates of          features      gate      mode
    the values        -             hard      ReLU
    a feature net     frozen        hard      FRNPF (random features), FLNPF (features of a trained network)
    a feature net     trained       soft      DNPFL
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tangentbench.errors import UnknownName
from tangentbench.networks.architecture import Architecture, Conv, Dense, Flatten, GlobalAveragePool, Layer
from tangentbench.networks.initialisation import draw
from tangentbench.networks.ops import convolution, dense
from tangentbench.networks.stack import Stack

FEATURES = ("none", "frozen", "trained")
VALUE_PART, FEATURE_PART = 0, 1
"""The streams that a run's value and feature networks are drawn from."""


@dataclass(frozen=True)
class Gating:
    """Where the gates come from and what they are."""

    features: str = "none"
    soft: bool = False
    """`soft`: height * sigmoid(beta q) instead of 1 where q > 0."""
    beta: float = 8.0
    height: float = 1.0
    padding: int = 1
    """m of DGN^(m): the value network is m times as wide and the gates are repeated m times (Definition C.1)."""

    def __post_init__(self) -> None:
        if self.features not in FEATURES:
            raise UnknownName("kind of features", self.features, FEATURES)
        if self.soft and self.features == "none":
            raise ValueError("soft gates need a feature network")

    def gate(self, pre_activations: Tensor) -> Tensor:
        if self.soft:
            return self.height * torch.sigmoid(self.beta * pre_activations)
        return (pre_activations > 0).to(pre_activations.dtype)


RELU = Gating()
FROZEN = Gating(features="frozen")


def decoupled(beta: float, height: float) -> Gating:
    """DNPFL: both networks trained, soft gates so that the derivative reaches the features."""
    return Gating(features="trained", soft=True, beta=beta, height=height)


class GatedNets:
    """A batch of R runs of one architecture and one gating."""

    def __init__(self, architecture: Architecture, gating: Gating, runs: int, *, dtype: torch.dtype = torch.float32):
        self.architecture = architecture
        self.gating = gating
        self.value_architecture = architecture.padded(gating.padding)
        features = {name: architecture.weight_shapes()[name] for name in architecture.hidden_names()}
        shapes = {f"value_{name}": shape for name, shape in self.value_architecture.weight_shapes().items()}
        if gating.features == "trained":
            shapes |= {f"feature_{name}": shape for name, shape in features.items()}
        dense_names = {f"{network}_{name}" for network in ("value", "feature") for name in architecture.dense_names()}
        self.parameters = Stack(shapes, runs, tracked=True, overwritten=dense_names, dtype=dtype)
        frozen = {f"feature_{name}": shape for name, shape in features.items()} if gating.features == "frozen" else {}
        self.frozen = Stack(frozen, runs, tracked=False, dtype=dtype)
        self.buffers = Stack({}, runs, tracked=False, dtype=dtype)

    @property
    def runs(self) -> int:
        return self.parameters.runs

    @property
    def features(self) -> Stack:
        """The stack that holds the feature networks."""
        return self.parameters if self.gating.features == "trained" else self.frozen

    def keep(self, slots: Sequence[int]) -> None:
        self.parameters.keep(slots)
        self.frozen.keep(slots)
        self.buffers.keep(slots)

    def outputs(self, inputs: Tensor, training: bool = False) -> Tensor:
        """The networks' outputs (R, B, k) for `inputs` (R, B, ...), a batch of its own for each run."""
        return forward(self.architecture, self.gating, self.tensors, inputs)

    @torch.no_grad()
    def gates(self, inputs: Tensor) -> list[Tensor]:
        """The gates G(1), ..., G(d-1) before padding, each (R, B, ...)."""
        seen: list[Tensor] = []
        forward(self.architecture, self.gating, self.tensors, inputs, seen.append)
        return [self.gating.gate(pre_activations) for pre_activations in seen]

    @property
    def tensors(self) -> dict[str, Tensor]:
        return self.parameters.tensors | self.frozen.tensors


def forward(
    architecture: Architecture,
    gating: Gating,
    tensors: dict[str, Tensor],
    inputs: Tensor,
    see: Callable[[Tensor], None] = lambda pre_activations: None,
) -> Tensor:
    """The gated network as a function of its parameters (R, ...): outputs (R, B, k) for inputs (R, B, ...).

    `see` is shown the pre-activations that the gates of each hidden layer are made of.
    """
    values = signal = inputs
    number = 0
    for layer in architecture.hidden:
        if not isinstance(layer, Dense | Conv):
            values, signal = reshape(layer, values), reshape(layer, signal)
            continue
        number += 1
        pre_activations = _apply_weights(layer, values, tensors, "value", number)
        if gating.features == "none":
            see(pre_activations)
            values = torch.relu(pre_activations)
            continue
        with torch.set_grad_enabled(gating.features == "trained" and torch.is_grad_enabled()):
            feature = _apply_weights(layer, signal, tensors, "feature", number)
            see(feature)
            gates = gating.gate(feature)
            signal = torch.relu(feature)
        values = pre_activations * padded(gates, gating.padding)
    return _apply_weights(Dense(architecture.outputs), values, tensors, "value", number + 1)


def _apply_weights(
    layer: Dense | Conv, inputs: Tensor, tensors: dict[str, Tensor], network: str, number: int
) -> Tensor:
    weights, biases = tensors[f"{network}_weight_{number}"], tensors.get(f"{network}_bias_{number}")
    if isinstance(layer, Dense):
        return dense(inputs, weights, biases)
    padding = "same" if layer.padding == "same" and layer.stride == 1 else same_side(layer)
    return convolution(inputs, weights, biases, layer.stride, padding)


def same_side(layer: Conv) -> int:
    return layer.kernel // 2 if layer.padding == "same" else 0


def padded(gates: Tensor, times: int) -> Tensor:
    """G(l, k w + i) = G(l, i) for k = 0, ..., m - 1, along the last axis (Table 3)."""
    return gates if times == 1 else torch.cat([gates] * times, dim=-1)


def reshape(layer: Layer, signal: Tensor) -> Tensor:
    if isinstance(layer, Flatten):
        return signal.flatten(2)
    assert isinstance(layer, GlobalAveragePool)
    return signal.mean(dim=(2, 3))


def build(
    architecture: Architecture,
    gating: Gating,
    runs: Sequence[int],
    seed: int,
    *,
    distribution: str = "glorot_uniform",
    scale: float = 1.0,
    dtype: torch.dtype = torch.float32,
) -> GatedNets:
    """Untrained networks with features drawn independently of the values (independent initialisation, II)."""
    nets = GatedNets(architecture, gating, len(runs), dtype=dtype)
    _draw_part(nets.parameters, "value_", distribution, runs, seed, VALUE_PART, scale)
    _draw_part(nets.features, "feature_", distribution, runs, seed, FEATURE_PART, scale)
    return nets


def _draw_part(
    stack: Stack, prefix: str, distribution: str, runs: Sequence[int], seed: int, part: int, scale: float
) -> None:
    names = {name.removeprefix(prefix): shape for name, shape in stack.shapes.items() if name.startswith(prefix)}
    drawn = Stack(names, len(runs), tracked=False, dtype=stack.dtype)
    draw(drawn, distribution, runs, seed, part=part, scale=scale)
    with torch.no_grad():
        for name in names:
            stack[prefix + name].copy_(drawn[name])


def copy_features(nets: GatedNets, source: Stack, slots: Sequence[int], source_prefix: str = "value_") -> None:
    """Put the hidden layers of `source` into the feature networks at the positions `slots`.

    With the networks' own parameters this is dependent initialisation (DI), with those of a trained ReLU network FLNPF.
    """
    with torch.no_grad():
        for name in nets.architecture.hidden_names():
            nets.features[f"feature_{name}"][list(slots)] = source[source_prefix + name]


def make_dependent(nets: GatedNets, slots: Sequence[int]) -> None:
    """DI: the features at the positions `slots` equal the values' initial weights."""
    with torch.no_grad():
        for name in nets.architecture.hidden_names():
            features, values = nets.features[f"feature_{name}"], nets.parameters[f"value_{name}"]
            features[list(slots)] = values[list(slots)]
