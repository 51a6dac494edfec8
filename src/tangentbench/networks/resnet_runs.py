"""Many runs of a deep normalised network for the training loop, with weights drawn by `resnets.py`.

Fully connected networks compute one batched product per layer for all runs. Convolutions are computed run by run:
measured on a CPU, grouped convolutions reach two thirds of that speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from tangentbench.networks.deep_architecture import DeepArchitecture
from tangentbench.networks.initialisation import stream
from tangentbench.networks.ops import dense
from tangentbench.networks.resnets import ACTIVATIONS, FullyConnected, build
from tangentbench.networks.stack import Stack

WIDEST_TOGETHER = 256
"""Up to this width fully connected runs take 0 to 30 % less time together than one by one on a CPU (measured)."""
_BATCH_NORM_MOMENTUM = 0.1
"""The weight of the newest batch in the running moments, torch's default."""


def gains_together(architecture: DeepArchitecture) -> bool:
    """Whether training runs together is faster; large networks only evict each other from the caches."""
    return architecture.kind == "fc" and architecture.width <= WIDEST_TOGETHER


class DeepNets(Protocol):
    """What the training loop needs, and the representations beside it."""

    parameters: Stack
    buffers: Stack

    def representations(self, inputs: Tensor, training: bool = False) -> Tensor:
        """The last hidden layer (R, B, w) for inputs (R, B, ...)."""

    def outputs(self, inputs: Tensor, training: bool = False) -> Tensor: ...

    def keep(self, slots: Sequence[int]) -> None: ...


def draw_runs(architecture: DeepArchitecture, runs: Sequence[int], seed: int) -> DeepNets:
    """Untrained networks; run k depends on (seed, k) alone."""
    networks = [build(architecture, stream(seed, run).initial_seed()) for run in runs]
    if architecture.kind == "fc":
        return FullyConnectedRuns([network for network in networks if isinstance(network, FullyConnected)])
    return ModuleRuns(networks)


class ModuleRuns:
    """Separate torch modules whose parameters, gradients and buffers are slices of stacks."""

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
        device = next(iter(self.parameters.tensors.values())).device
        for network in self.networks:
            network.to(device)
        self._attach()

    def keep(self, slots: Sequence[int]) -> None:
        self.networks = [self.networks[slot] for slot in slots]
        self.parameters.keep(slots)
        self.buffers.keep(slots)
        self._attach()

    def outputs(self, inputs: Tensor, training: bool = False) -> Tensor:
        self._switch(training)
        return torch.stack([network(_channels_last(own)) for network, own in zip(self.networks, inputs, strict=True)])

    def representations(self, inputs: Tensor, training: bool = False) -> Tensor:
        self._switch(training)
        pairs: Any = zip(self.networks, inputs, strict=True)
        return torch.stack([network.representation(_channels_last(own)) for network, own in pairs])

    def _switch(self, training: bool) -> None:
        for network in self.networks:
            if network.training != training:
                network.train(training)


def _channels_last(images: Tensor) -> Tensor:
    """The same images (B, channels, height, width) with the channels of each pixel contiguous in memory.

    All later layers keep that layout; narrow ResNets take 10 to 25 % less time with it on a CPU (measured).
    """
    return images.contiguous(memory_format=torch.channels_last)


class FullyConnectedRuns:
    """Fully connected networks as batched products (R, B, i) x (R, i, o)."""

    def __init__(self, networks: Sequence[FullyConnected]) -> None:
        first = networks[0]
        self.depth = len(first.layers)
        self.normalisation = first.normalisation
        self.activation = ACTIVATIONS[self.normalisation]()
        states = [_named_tensors(network) for network in networks]
        shapes = {name: tuple(tensor.shape) for name, tensor in states[0].items()}
        moments = {name: shape for name, shape in shapes.items() if name.startswith("running")}
        learned = {name: shape for name, shape in shapes.items() if name not in moments}
        products = [name for name in learned if name.startswith(("weight", "bias"))]
        dtype = first.read_out.weight.dtype
        self.parameters = Stack(learned, len(networks), tracked=True, overwritten=products, dtype=dtype)
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
            return _batch_norm(signal, *moments, *self._scale_and_shift(layer), training)
        if self.normalisation == "layer_norm":
            return _layer_norm(signal, *self._scale_and_shift(layer))
        return signal

    def _scale_and_shift(self, layer: int) -> tuple[Tensor, Tensor]:
        return self.parameters[f"scale_{layer}"], self.parameters[f"shift_{layer}"]


def _named_tensors(network: FullyConnected) -> dict[str, Tensor]:
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


def _batch_norm(signal: Tensor, mean: Tensor, var: Tensor, scale: Tensor, shift: Tensor, training: bool) -> Tensor:
    """Batch normalisation of each run over its own batch: signal (R, B, w), everything else (R, w).

    One call normalises all runs: their units are concatenated to (B, R w). The moments change in place.
    """
    runs, batch, width = signal.shape
    columns = signal.transpose(0, 1).reshape(batch, runs * width)
    normalised = functional.batch_norm(
        columns, mean.view(-1), var.view(-1), scale.view(-1), shift.view(-1), training, _BATCH_NORM_MOMENTUM
    )
    return normalised.view(batch, runs, width).transpose(0, 1)


def _layer_norm(signal: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Layer normalisation of signal (R, B, w) with each run's scale and shift (R, w)."""
    width = signal.shape[-1:]
    if len(signal) == 1:
        return functional.layer_norm(signal, width, scale[0], shift[0])
    return torch.addcmul(shift[:, None, :], functional.layer_norm(signal, width), scale[:, None, :])
