"""Full-batch training in stages, for instance Adam and then gradient descent, resumable after a kill."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from tangentbench.errors import Diverged, UnknownName
from tangentbench.networks.stack import on_device
from tangentbench.training.checkpoint import Checkpoint
from tangentbench.training.optimisers import torch_optimiser

CHECK_EVERY = 200
"""Steps between looks at the clock and at whether the losses are still numbers."""


class StagedNetworks(Protocol):
    """Networks that train together, each with a loss of its own."""

    @property
    def parameters(self) -> list[Tensor]: ...

    def backward(self) -> Tensor:
        """Put the gradients into the parameters; the costs before the step, (M,)."""

    def penalties(self) -> Tensor:
        """What is added to the costs to make the loss, (M,)."""

    def describe(self, place: int, /) -> str:
        """The network at `place`, for an error."""


@dataclass(frozen=True)
class Stage:
    """`steps` full-batch steps of `optimiser` (adam or descent) of size `step`."""

    optimiser: str
    step: float
    steps: int

    def __post_init__(self) -> None:
        if self.optimiser not in FULL_BATCH_OPTIMISERS:
            raise UnknownName("full-batch optimiser", self.optimiser, FULL_BATCH_OPTIMISERS)


FULL_BATCH_OPTIMISERS = {"adam": "adam", "descent": "sgd"}
"""What a stage calls an optimiser of training/optimisers.py: without minibatches descent is not stochastic."""


def train_in_stages(
    nets: StagedNetworks,
    stages: Sequence[Stage],
    *,
    label: str,
    records: int = 50,
    checkpoint: Checkpoint | None = None,
) -> pd.DataFrame:
    """Train `nets` through the stages; the penalised loss of each member at about `records` steps and at the end.

    Rows: `place` of the member, `step` counted through all stages, `loss`. Raises Diverged, naming `label` and member.
    It runs on the process's device (device.py) and leaves `nets` on the CPU.
    """
    with on_device(nets):
        session = StagedSession(nets, stages, label, records)
        if checkpoint is not None:
            session.resume(checkpoint)
        _finish(session, checkpoint)
    return pd.DataFrame(session.history)


def _finish(session: StagedSession, checkpoint: Checkpoint | None) -> None:
    """All steps that are left, and the losses after them."""
    saved = time.monotonic()
    with tqdm(total=session.total, initial=session.step, desc=session.label, unit="step", disable=None) as bar:
        while session.step < session.total:
            session.advance()
            bar.update()
            due = (
                session.step % CHECK_EVERY == 0 and checkpoint and time.monotonic() - saved >= checkpoint.every_seconds
            )
            if checkpoint and due:
                session.store(checkpoint)
                saved = time.monotonic()
    if not session.finished:
        session.record(session.nets.backward())
        if checkpoint is not None:
            session.store(checkpoint)


class StagedSession:
    """A training under way."""

    def __init__(self, nets: StagedNetworks, stages: Sequence[Stage], label: str, records: int) -> None:
        self.nets, self.stages, self.label = nets, [stage for stage in stages if stage.steps], label
        self.total = sum(stage.steps for stage in self.stages)
        self.every = max(self.total // records, 1)
        self.step, self.stage = 0, 0
        self.history: list[dict[str, Any]] = []
        self.optimiser = self.new_optimiser()

    @property
    def finished(self) -> bool:
        """Whether the losses after the last step are recorded."""
        return bool(self.history) and self.history[-1]["step"] == self.total

    def new_optimiser(self) -> torch.optim.Optimizer:
        stage = self.stages[self.stage]
        return torch_optimiser(FULL_BATCH_OPTIMISERS[stage.optimiser], self.nets.parameters, stage.step)

    def advance(self) -> None:
        if self.step == sum(stage.steps for stage in self.stages[: self.stage + 1]):
            self.stage += 1
            self.optimiser = self.new_optimiser()
        costs = self.nets.backward()
        if self.step % self.every == 0:
            self.record(costs)
        self.optimiser.step()
        self.step += 1

    def record(self, costs: Tensor) -> None:
        losses = (costs + self.nets.penalties()).cpu()
        for place, loss in enumerate(losses.tolist()):
            if not torch.isfinite(losses[place]):
                setting = f"{self.label}, {self.nets.describe(place)}, {self.stages[self.stage]}"
                raise Diverged("the training loss", self.step, setting)
            self.history.append({"place": place, "step": self.step, "loss": loss})

    def store(self, checkpoint: Checkpoint) -> None:
        tensors = {f"weights_{number}": values for number, values in enumerate(self.nets.parameters)}
        for number, parameter in enumerate(self.nets.parameters):
            for name, values in self.optimiser.state.get(parameter, {}).items():
                if isinstance(values, Tensor):
                    tensors[f"{name}_{number}"] = values
        checkpoint.save({"step": self.step, "stage": self.stage, "history": self.history}, tensors)

    def resume(self, checkpoint: Checkpoint) -> None:
        found = checkpoint.load()
        if found is None:
            return
        facts, tensors = found.facts, found.tensors
        self.step, self.stage, self.history = facts["step"], facts["stage"], facts["history"]
        self.optimiser = self.new_optimiser()
        for number, parameter in enumerate(self.nets.parameters):
            end = f"_{number}"
            own = {name.removesuffix(end): values for name, values in tensors.items() if name.endswith(end)}
            with torch.no_grad():
                parameter.copy_(own.pop("weights"))
            if own:
                self.optimiser.state[parameter] = {name: values.to(parameter.device) for name, values in own.items()}
