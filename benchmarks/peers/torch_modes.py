"""Plain PyTorch in every mode worth trying, so that a race is run against the fastest: as written, compiled, stacked.

A mode is a way to train some networks (one after the other with autograd, the same with `torch.compile`, all at once
with `torch.func`) and a way to use the cores (one process with all threads or with one, or one process per core).
Every process starts, imports and warms up before the clock runs; the clock stops when the last one has finished.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, multiprocessing, nn

WARM_UP_STEPS = 3
PATIENCE_SECONDS = 600


@dataclass(frozen=True)
class Trial:
    """What is trained: weights[run][layer] = (matrix, bias), orders[run] the examples of one epoch."""

    weights: Sequence[Sequence[tuple[Tensor, Tensor]]]
    inputs: Tensor
    labels: Tensor
    orders: Tensor
    batch: int
    optimiser: str
    learning_rate: float
    epsilon: float
    beta2: float

    def share(self, runs: slice) -> Trial:
        return Trial(**{**self.__dict__, "weights": self.weights[runs], "orders": self.orders[runs]})

    def shortened(self, steps: int) -> Trial:
        return Trial(**{**self.__dict__, "orders": self.orders[:, : steps * self.batch]})

    def networks(self) -> list[nn.Sequential]:
        return [_network(layers) for layers in self.weights]

    def batches(self, run: int) -> Iterator[tuple[Tensor, Tensor]]:
        for chosen in self.orders[run].split(self.batch):
            yield self.inputs[chosen], self.labels[chosen]


def _network(layers: Sequence[tuple[Tensor, Tensor]]) -> nn.Sequential:
    """The network as users of torch write it."""
    modules: list[nn.Module] = []
    for matrix, bias in layers:
        layer = nn.Linear(*matrix.shape, dtype=matrix.dtype)
        with torch.no_grad():
            layer.weight.copy_(matrix.T)
            layer.bias.copy_(bias)
        modules += [layer, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def one_by_one(trial: Trial, compiled: bool = False) -> Tensor:
    """Losses (runs, steps) of the networks trained one after the other."""
    return torch.stack([_trained(network, trial, run, compiled) for run, network in enumerate(trial.networks())])


def _loss(parameters: list[Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
    """The same network as a function of its weights: compiled once, it serves every run."""
    signal = inputs
    for number in range(0, len(parameters), 2):
        signal = nn.functional.linear(signal if number == 0 else signal.relu(), *parameters[number : number + 2])
    return nn.functional.cross_entropy(signal, labels)


_compiled_loss = torch.compile(_loss)


def _trained(network: nn.Sequential, trial: Trial, run: int, compiled: bool) -> Tensor:
    criterion, parameters = nn.CrossEntropyLoss(), list(network.parameters())
    rule = torch.optim.SGD if trial.optimiser == "sgd" else torch.optim.Adam
    # the fused rules update all weights in one call
    updates: Any = rule(parameters, lr=trial.learning_rate, fused=True)
    losses = []
    for step, (inputs, labels) in enumerate(trial.batches(run), start=1):
        updates.zero_grad()
        loss = _compiled_loss(parameters, inputs, labels) if compiled else criterion(network(inputs), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        if trial.optimiser == "adam":
            # Keras' Adam, which ours follows, adds epsilon before the bias correction
            updates.param_groups[0]["eps"] = trial.epsilon / math.sqrt(1 - trial.beta2**step)
        updates.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def stacked(trial: Trial) -> Tensor:
    """The same losses with all networks in one call: `torch.func` over stacked weights."""
    networks = trial.networks()
    parameters, _ = torch.func.stack_module_state(networks)  # type: ignore[arg-type]
    parameters = {name: value.detach() for name, value in parameters.items()}
    shape = networks[0]

    def loss_of(weights: dict[str, Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
        outputs = torch.func.functional_call(shape, weights, (inputs,))
        return nn.functional.cross_entropy(outputs, labels)

    gradients_of = torch.func.vmap(torch.func.grad_and_value(loss_of))
    leaves = [value.requires_grad_() for value in parameters.values()]
    rule = torch.optim.SGD if trial.optimiser == "sgd" else torch.optim.Adam
    updates: Any = rule(leaves, lr=trial.learning_rate, fused=True)
    losses = []
    for step, chosen in enumerate(trial.orders.split(trial.batch, dim=1), start=1):
        with torch.no_grad():
            gradients, loss = gradients_of(parameters, trial.inputs[chosen], trial.labels[chosen])
        for name, value in parameters.items():
            value.grad = gradients[name]
        if trial.optimiser == "adam":
            updates.param_groups[0]["eps"] = trial.epsilon / math.sqrt(1 - trial.beta2**step)
        updates.step()
        losses.append(loss)
    return torch.stack(losses, dim=1)


WAYS: dict[str, Callable[[Trial], Tensor]] = {
    "one by one": one_by_one,
    "one by one, torch.compile": lambda trial: one_by_one(trial, compiled=True),
    "stacked, torch.func": stacked,
}


@dataclass(frozen=True)
class Mode:
    way: str
    processes: int
    threads: int

    def __str__(self) -> str:
        return f"{self.way}; {self.processes} process(es) of {self.threads} thread(s)"


def modes(cores: int) -> list[Mode]:
    """Every way to train with every way to use the cores."""
    uses = {(1, cores), (1, 1), (cores, 1)}
    return [Mode(way, *use) for way in WAYS for use in sorted(uses)]


def seconds(mode: Mode, trial: Trial, repeats: int) -> float:
    """The best wall-clock time of an epoch of all runs."""
    context = multiprocessing.get_context("spawn")
    ready, go = context.Barrier(mode.processes + 1), context.Barrier(mode.processes + 1)
    size = -(-len(trial.weights) // mode.processes)
    shares = [trial.share(slice(start, start + size)) for start in range(0, len(trial.weights), size)]
    workers = [context.Process(target=_work, args=(mode, share, repeats, ready, go), daemon=True) for share in shares]
    for worker in workers:
        worker.start()
    times = []
    try:
        for _ in range(repeats):
            ready.wait(PATIENCE_SECONDS)
            start = time.perf_counter()
            go.wait(PATIENCE_SECONDS)
            ready.wait(PATIENCE_SECONDS)
            times.append(time.perf_counter() - start)
            go.wait(PATIENCE_SECONDS)
    finally:
        for worker in workers:
            worker.join(10)
            worker.kill()
    return min(times)


def _work(mode: Mode, trial: Trial, repeats: int, ready: Any, go: Any) -> None:
    torch.set_num_threads(mode.threads)
    try:
        WAYS[mode.way](trial.shortened(WARM_UP_STEPS))
    except BaseException:
        ready.abort()
        raise
    for _ in range(repeats):
        ready.wait(PATIENCE_SECONDS)
        go.wait(PATIENCE_SECONDS)
        WAYS[mode.way](trial)
        ready.wait(PATIENCE_SECONDS)
        go.wait(PATIENCE_SECONDS)
