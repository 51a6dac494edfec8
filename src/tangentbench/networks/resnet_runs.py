"""Many runs of a deep normalised network for the training loop, with weights drawn by models/normalised.py.

Fully connected networks are one batched product a layer for all runs. Convolutions go run by run: measured on a CPU,
grouped ones reach two thirds of their speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from tangentbench.errors import UnknownName
from tangentbench.networks.initialisation import stream
from tangentbench.networks.ops import dense
from tangentbench.networks.resnets import ACTIVATIONS, FullyConnected, ResNet
from tangentbench.networks.stack import Stack

ARCHITECTURES = ("fc", "resnet")
WIDTH_TOGETHER = 256
"""Up to this width fully connected runs take 0 to 30 % less time together than one by one on a CPU (measured)."""
BATCH_NORM_MOMENTUM = 0.1
"""The share of the newest batch in the running moments, torch's own."""


@dataclass(frozen=True)
class DeepArchitecture:
    """What the runs of a batch share; `width` counts a layer's units, or the channels of a ResNet's first stage."""

    kind: str
    depth: int
    width: int
    normalisation: str
    image_shape: tuple[int, int, int]
    """(channels, height, width)"""
    classes: int
    fan: str = "fan_out"
    skip_scale: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in ARCHITECTURES:
            raise UnknownName("architecture", self.kind, ARCHITECTURES)

    def network(self, seed: int) -> FullyConnected | ResNet:
        if self.kind == "fc":
            channels, height, width = self.image_shape
            inputs = channels * height * width
            return FullyConnected(inputs, self.width, self.depth, self.classes, self.normalisation, self.fan, seed)
        return ResNet(
            self.depth, self.width, self.classes, self.normalisation, self.fan, skip_scale=self.skip_scale, seed=seed
        )


def gains_together(architecture: DeepArchitecture) -> bool:
    """Whether runs that train together are done sooner; larger ones only crowd each other out of the caches."""
    return architecture.kind == "fc" and architecture.width <= WIDTH_TOGETHER


class DeepNets(Protocol):
    """What the training loop needs, and the representations beside it."""

    parameters: Stack
    buffers: Stack

    def representations(self, inputs: Tensor, training: bool = False) -> Tensor:
        """The last hidden layer (R, B, w) for inputs (R, B, ...)."""

    def outputs(self, inputs: Tensor, training: bool = False) -> Tensor: ...

    def keep(self, slots: Sequence[int]) -> None: ...


def draw_runs(architecture: DeepArchitecture, runs: Sequence[int], seed: int) -> DeepNets:
    """Untrained networks; run k is a function of (seed, k) alone."""
    networks = [architecture.network(stream(seed, run).initial_seed()) for run in runs]
    if architecture.kind == "fc":
        return FullyConnectedRuns([network for network in networks if isinstance(network, FullyConnected)])
    return ModuleRuns(networks)


class ModuleRuns:
    """Separate torch modules whose parameters, gradients and buffers lie in stacks."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        self.networks = list(networks)
        first = self.networks[0]
        shapes = {name: tuple(parameter.shape) for name, parameter in first.named_parameters()}
        moments = {name: tuple(buffer.shape) for name, buffer in first.named_buffers() if buffer.is_floating_point()}
        dtype = next(first.parameters()).dtype
        self.parameters = Stack(shapes, len(self.networks), tracked=True, dtype=dtype)
        self.buffers = Stack(moments, len(self.networks), tracked=False, dtype=dtype)
        with torch.no_grad():
            for slot, network in enumerate(self.networks):
                for name, parameter in network.named_parameters():
                    self.parameters[name][slot] = parameter
                for name in moments:
                    self.buffers[name][slot] = network.get_buffer(name)
        self._attach()

    def _attach(self) -> None:
        """Let each module read and write its own slices of the stacks."""
        for slot, network in enumerate(self.networks):
            for name, parameter in network.named_parameters():
                whole = self.parameters[name]
                assert whole.grad is not None
                parameter.data, parameter.grad = whole.detach()[slot], whole.grad[slot]
            for name, moments in self.buffers.tensors.items():
                network.get_buffer(name).data = moments[slot]

    def moved(self) -> None:
        """Follow the stacks to the device they are on now."""
        place = next(iter(self.parameters.tensors.values())).device
        for network in self.networks:
            network.to(place)
        self._attach()

    def keep(self, slots: Sequence[int]) -> None:
        self.networks = [self.networks[slot] for slot in slots]
        self.parameters.keep(slots)
        self.buffers.keep(slots)
        self._attach()

    def outputs(self, inputs: Tensor, training: bool = False) -> Tensor:
        self._switch(training)
        return torch.stack([network(pixel_major(own)) for network, own in zip(self.networks, inputs, strict=True)])

    def representations(self, inputs: Tensor, training: bool = False) -> Tensor:
        self._switch(training)
        pairs: Any = zip(self.networks, inputs, strict=True)
        return torch.stack([network.representation(pixel_major(own)) for network, own in pairs])

    def _switch(self, training: bool) -> None:
        for network in self.networks:
            if network.training != training:
                network.train(training)


def pixel_major(images: Tensor) -> Tensor:
    """The same images (B, channels, height, width) with the channels of a pixel side by side in memory.

    All later layers keep that order; narrow ResNets take 10 to 25 % less time with it on a CPU (measured).
    """
    return images.contiguous(memory_format=torch.channels_last)


class FullyConnectedRuns:
    """Fully connected networks as batched products (R, B, i) x (R, i, o)."""

    def __init__(self, networks: Sequence[FullyConnected]) -> None:
        first = networks[0]
        self.depth = len(first.layers)
        self.normalisation = first.normalisation
        self.activation = ACTIVATIONS[self.normalisation]()
        states = [stacked_names(network) for network in networks]
        shapes = {name: tuple(tensor.shape) for name, tensor in states[0].items()}
        moments = {name: shape for name, shape in shapes.items() if name.startswith("running")}
        learnt = {name: shape for name, shape in shapes.items() if name not in moments}
        products = [name for name in learnt if name.startswith(("weight", "bias"))]
        dtype = first.read_out.weight.dtype
        self.parameters = Stack(learnt, len(networks), tracked=True, overwritten=products, dtype=dtype)
        self.buffers = Stack(moments, len(networks), tracked=False, dtype=dtype)
        with torch.no_grad():
            for slot, state in enumerate(states):
                for name, values in state.items():
                    (self.buffers if name in moments else self.parameters)[name][slot] = values

    def keep(self, slots: Sequence[int]) -> None:
        self.parameters.keep(slots)
        self.buffers.keep(slots)

    def representations(self, inputs: Tensor, training: bool = False) -> Tensor:
        signal, tensors = inputs.flatten(2), self.parameters.tensors
        for layer in range(1, self.depth + 1):
            signal = dense(signal, tensors[f"weight_{layer}"], tensors.get(f"bias_{layer}"))
            signal = self.activation(self._normalised(signal, layer, training))
        return signal

    def outputs(self, inputs: Tensor, training: bool = False) -> Tensor:
        tensors, top = self.parameters.tensors, self.depth + 1
        return dense(self.representations(inputs, training), tensors[f"weight_{top}"], tensors[f"bias_{top}"])

    def _normalised(self, signal: Tensor, layer: int, training: bool) -> Tensor:
        if self.normalisation == "batch_norm":
            moments = self.buffers[f"running_mean_{layer}"], self.buffers[f"running_var_{layer}"]
            return batch_norm(signal, *moments, *self._scale_and_shift(layer), training)
        if self.normalisation == "layer_norm":
            return layer_norm(signal, *self._scale_and_shift(layer))
        return signal

    def _scale_and_shift(self, layer: int) -> tuple[Tensor, Tensor]:
        return self.parameters[f"scale_{layer}"], self.parameters[f"shift_{layer}"]


def stacked_names(network: FullyConnected) -> dict[str, Tensor]:
    """One network's parameters and running moments by the names of `FullyConnectedRuns`; weights are (in, out)."""
    state: dict[str, Tensor] = {}
    for number, layer in enumerate(network.layers, start=1):
        assert isinstance(layer, nn.Sequential)
        linear, norm = layer[0], layer[1]
        assert isinstance(linear, nn.Linear)
        state[f"weight_{number}"] = linear.weight.T
        if linear.bias is not None:
            state[f"bias_{number}"] = linear.bias
        if isinstance(norm, nn.BatchNorm1d | nn.LayerNorm):
            state[f"scale_{number}"], state[f"shift_{number}"] = norm.weight, norm.bias
        if isinstance(norm, nn.BatchNorm1d):
            assert norm.running_mean is not None and norm.running_var is not None
            state[f"running_mean_{number}"], state[f"running_var_{number}"] = norm.running_mean, norm.running_var
    top = len(network.layers) + 1
    return state | {f"weight_{top}": network.read_out.weight.T, f"bias_{top}": network.read_out.bias}


def batch_norm(signal: Tensor, mean: Tensor, var: Tensor, scale: Tensor, shift: Tensor, training: bool) -> Tensor:
    """Batch normalisation of each run over its own batch: signal (R, B, w), everything else (R, w).

    The runs' units lie side by side for it, (B, R w), so that one call serves all; the moments change in place.
    """
    runs, batch, width = signal.shape
    columns = signal.transpose(0, 1).reshape(batch, runs * width)
    normalised = functional.batch_norm(
        columns, mean.view(-1), var.view(-1), scale.view(-1), shift.view(-1), training, BATCH_NORM_MOMENTUM
    )
    return normalised.view(batch, runs, width).transpose(0, 1)


def layer_norm(signal: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Layer normalisation of signal (R, B, w) with each run's scale and shift (R, w)."""
    width = signal.shape[-1:]
    if len(signal) == 1:
        return functional.layer_norm(signal, width, scale[0], shift[0])
    return torch.addcmul(shift[:, None, :], functional.layer_norm(signal, width), scale[:, None, :])
