"""The table of optimisers, their use on stacked runs with a learning rate each, and learning-rate schedules."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tangentbench.errors import UnknownName
from tangentbench.networks.stack import Stack, join_rows, split_rows

KERAS_EPSILON = 1e-7
ADAM_BETAS = (0.9, 0.999)
RMSPROP_DECAY = 0.9


@dataclass(frozen=True)
class Optimiser:
    """Which update, and its constants; Keras' defaults where they differ from torch's."""

    name: str = "sgd"
    momentum: float = 0.0
    weight_decay: float = 0.0
    epsilon: float = KERAS_EPSILON

    def __post_init__(self) -> None:
        if self.name not in OPTIMISERS:
            raise UnknownName("optimiser", self.name, OPTIMISERS)

    @property
    def native(self) -> NativeUpdate | None:
        """The same update in the compiled core; None where it has none."""
        rule = OPTIMISERS[self.name]
        return rule.native_with_momentum if self.momentum and rule.native_with_momentum else rule.native


@dataclass(frozen=True)
class StepDecay:
    """The learning rate times `factor` after every `every` epochs; constant where `every` is 0."""

    every: int = 0
    factor: float = 0.1

    def __call__(self, epoch: int) -> float:
        """The factor during `epoch`, counted from 1."""
        return self.factor ** ((epoch - 1) // self.every) if self.every else 1.0


@dataclass(frozen=True)
class StepDrops:
    """The learning rate times `factor` after each of the epochs `after`."""

    after: tuple[int, ...]
    factor: float = 0.1

    def __call__(self, epoch: int) -> float:
        """The factor during `epoch`, counted from 1."""
        return self.factor ** sum(epoch > end for end in self.after)


def _sgd(rows: list[dict[str, Any]], optimiser: Optimiser) -> torch.optim.Optimizer:
    return torch.optim.SGD(rows, lr=0.0, momentum=optimiser.momentum, weight_decay=optimiser.weight_decay, fused=True)


def _adam(rows: list[dict[str, Any]], optimiser: Optimiser) -> torch.optim.Optimizer:
    return torch.optim.Adam(rows, lr=0.0, betas=ADAM_BETAS, weight_decay=optimiser.weight_decay, fused=True)


def _rmsprop(rows: list[dict[str, Any]], optimiser: Optimiser) -> torch.optim.Optimizer:
    return torch.optim.RMSprop(
        rows,
        lr=0.0,
        alpha=RMSPROP_DECAY,
        eps=optimiser.epsilon,
        momentum=optimiser.momentum,
        weight_decay=optimiser.weight_decay,
    )


@dataclass(frozen=True)
class NativeUpdate:
    """An update of the compiled core: its name and number in `enum Rule` (src/native/training)."""

    name: str
    number: int
    moments: tuple[str, ...] = ()
    """What torch calls the moments that the core updates in place, first and second."""


@dataclass(frozen=True)
class UpdateRule:
    """How an optimiser is built in torch, and which update of the compiled core computes the same."""

    build: Callable[[list[dict[str, Any]], Optimiser], torch.optim.Optimizer]
    native: NativeUpdate | None = None
    native_with_momentum: NativeUpdate | None = None
    """Instead of `native` where there is momentum."""


OPTIMISERS: dict[str, UpdateRule] = {
    "sgd": UpdateRule(
        _sgd, NativeUpdate("plain_descent", 0), NativeUpdate("momentum_descent", 1, ("momentum_buffer",))
    ),
    "adam": UpdateRule(_adam, NativeUpdate("adam", 2, ("exp_avg", "exp_avg_sq"))),
    "rmsprop": UpdateRule(_rmsprop),
}


def torch_optimiser(name: str, parameters: list[Tensor], learning_rate: float) -> torch.optim.Optimizer:
    """The optimiser `name` of the table over plain tensors, with torch's own constants."""
    return OPTIMISERS[name].build([{"params": parameters, "lr": learning_rate}], Optimiser(name))


class StackedOptimiser:
    """One torch optimiser over a stack: neighbouring runs of one learning rate are updated in a single pass."""

    def __init__(self, optimiser: Optimiser, stack: Stack, learning_rates: Sequence[float]) -> None:
        self.optimiser = optimiser
        self.learning_rates = list(learning_rates)
        self.steps = 0
        self._attach(stack)

    def _attach(self, stack: Stack) -> None:
        self.stack = stack
        self.pieces: list[_Piece] = []
        groups = []
        for slots in _equal_neighbours(self.learning_rates):
            pieces = [_Piece(name, slots, _leaf_slice(tensor, slots)) for name, tensor in stack.tensors.items()]
            groups.append({"params": [piece.tensor for piece in pieces]})
            self.pieces += pieces
        self.group_sizes = [self.learning_rates[slots.start] for slots in _equal_neighbours(self.learning_rates)]
        self.updates = OPTIMISERS[self.optimiser.name].build(groups, self.optimiser)

    def step(self, factor: float = 1.0) -> None:
        """Update every run by its gradient, with its learning rate times `factor`."""
        self.steps += 1
        for group, learning_rate in zip(self.updates.param_groups, self.group_sizes, strict=True):
            group["lr"] = learning_rate * factor
            if self.optimiser.name == "adam":
                # Keras adds epsilon before the bias correction of the second moment, torch after it
                group["eps"] = self.optimiser.epsilon / math.sqrt(1.0 - ADAM_BETAS[1] ** self.steps)
        self.updates.step()

    def moments(self) -> list[dict[str, list[Tensor]]]:
        """The moments themselves, for code that takes steps in our place: each parameter's, run by run.

        One that has taken no step yet is zero; `advance` must say afterwards how many steps were taken.
        """
        found: list[dict[str, list[Tensor]]] = []
        for moment in self.optimiser.native.moments if self.optimiser.native else ():
            by_name: dict[str, list[Tensor]] = {}
            for piece in self.pieces:
                state = self.updates.state[piece.tensor]
                if moment not in state:
                    state[moment] = torch.zeros_like(piece.tensor, requires_grad=False)
                    state["step"] = torch.tensor(float(self.steps))
                by_name.setdefault(piece.name, []).extend(state[moment])
            found.append(by_name)
        return found

    def advance(self, steps: int) -> None:
        """Count steps that were taken elsewhere."""
        self.steps += steps
        for state in self.updates.state.values():
            if "step" in state:
                state["step"].fill_(float(self.steps))

    def keep(self, slots: Sequence[int], stack: Stack) -> None:
        """Go on with the runs at `slots`, whose parameters `stack` holds now."""
        kept = {name: rows[list(slots)] for name, rows in self.state().items()}
        self.learning_rates = [self.learning_rates[slot] for slot in slots]
        self._attach(stack)
        self.load_state(kept, self.steps)

    def state(self) -> dict[str, Tensor]:
        """The moments of all runs, each (R, P) as `Stack.rows` orders them; empty where there are none."""
        moments: dict[str, dict[str, Tensor]] = {}
        for piece in self.pieces:
            for moment, values in self.updates.state[piece.tensor].items():
                if isinstance(values, Tensor) and values.shape == piece.tensor.shape:
                    whole = moments.setdefault(moment, {})
                    shape = (len(self.learning_rates), *self.stack.shapes[piece.name])
                    whole.setdefault(piece.name, torch.zeros(shape, dtype=values.dtype))[piece.slots] = values.cpu()
        return {moment: join_rows(whole, len(self.learning_rates)) for moment, whole in moments.items()}

    def load_state(self, state: dict[str, Tensor], steps: int) -> None:
        self.steps = steps
        if not state:
            return
        moments = {moment: split_rows(rows, self.stack.shapes) for moment, rows in state.items()}
        for piece in self.pieces:
            place = piece.tensor.device
            own = {moment: whole[piece.name][piece.slots].clone().to(place) for moment, whole in moments.items()}
            # fused updates count their steps where the parameters are, the others on the CPU
            counted = torch.tensor(float(steps), device=place if self.updates.defaults.get("fused") else "cpu")
            self.updates.state[piece.tensor] = {"step": counted} | own


@dataclass(frozen=True, eq=False)
class _Piece:
    """The runs `slots` of the tensor `name`."""

    name: str
    slots: slice
    tensor: Tensor


def _equal_neighbours(learning_rates: Sequence[float]) -> list[slice]:
    """The neighbouring places that share a learning rate."""
    ends = [place for place in range(1, len(learning_rates)) if learning_rates[place] != learning_rates[place - 1]]
    return [slice(start, end) for start, end in itertools.pairwise([0, *ends, len(learning_rates)])]


def _leaf_slice(tensor: Tensor, slots: slice) -> Tensor:
    """A leaf that shares memory, and gradient, with these runs of `tensor`."""
    assert tensor.grad is not None
    piece = tensor.detach()[slots].requires_grad_()
    piece.grad = tensor.grad[slots]
    return piece
