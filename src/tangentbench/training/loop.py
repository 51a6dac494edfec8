"""Training by minibatches: many runs of one architecture as one batched program.

A run is a function of (seed, run) and its learning rate: it takes the same steps whichever runs train beside it.
Trainings of other kinds (full batch, gradient flow, ensembles of small networks) are in `engines`.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from tangentbench.device import CPU
from tangentbench.errors import Diverged, TangentbenchError, UnknownName
from tangentbench.networks.losses import LOSSES, hits
from tangentbench.networks.stack import Stack, move, on_device
from tangentbench.training.batches import Augment, Batches, Examples, epoch_order
from tangentbench.training.checkpoint import Checkpoint
from tangentbench.training.engines.native_mlp import BLOCK_STEPS, CompiledSteps, knows
from tangentbench.training.optimisers import Optimiser, StackedOptimiser, StepDecay, StepDrops

NEVER = 1.01
"""A train accuracy that is never reached."""
BACKENDS = ("auto", "torch", "native")


class Networks(Protocol):
    """R runs of one architecture; every tensor has a leading run axis."""

    parameters: Stack
    buffers: Stack
    """What training changes besides the parameters, for instance running means; often nothing."""

    def outputs(self, inputs: Tensor, training: bool = False) -> Tensor:
        """Outputs (R, B, k) for inputs (R, B, ...)."""

    def keep(self, slots: Sequence[int]) -> None:
        """Drop all runs but those at these places."""


@dataclass(frozen=True)
class TrainingRecipe:
    """How runs are trained, apart from their learning rates."""

    epochs: int
    batch_size: int = 32
    loss: str = "cross_entropy"
    optimiser: Optimiser = field(default_factory=Optimiser)
    schedule: StepDecay | StepDrops = field(default_factory=StepDecay)
    stop_at_train_accuracy: float = NEVER
    """A run ends after the epoch whose train accuracy (counted while training, as Keras does) reaches this."""
    snapshot_epochs: tuple[int, ...] = ()
    diverging: str = "raise"
    """What a loss that is no number does: `raise` an error, or `stop` that run with accuracy 0."""
    augment: Augment | None = None
    """Changes each run's batch of training inputs with random numbers of that run and epoch; it works on the CPU."""
    evaluation_batch: int = 500
    backend: str = "auto"
    """`auto`: compiled steps where they know the network, `torch`: autograd, `native`: compiled steps or an error."""

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise UnknownName("loss", self.loss, LOSSES)
        if self.diverging not in ("raise", "stop"):
            raise UnknownName("way to treat divergence", self.diverging, ("raise", "stop"))
        if self.backend not in BACKENDS:
            raise UnknownName("backend of training", self.backend, BACKENDS)


@dataclass(frozen=True)
class TrainingRuns:
    """Which runs are trained.

    numbers: distinct numbers of the runs.
    learning_rates: one per run.
    order: names the streams of the runs' data order (default: `numbers`), so that runs with different learning rates
        can see the same batches.
    """

    numbers: Sequence[int]
    learning_rates: Sequence[float]
    seed: int
    order: Sequence[int] | None = None

    def order_of(self, runs: Sequence[int]) -> list[int]:
        """The streams of the data order of these runs."""
        of = dict(zip(self.numbers, self.order or self.numbers, strict=True))
        return [of[run] for run in runs]


Measure = Callable[[Any, Sequence[int], int], list[dict[str, Any]]]
"""(networks, their run numbers, epoch or step) to rows of a table."""


@dataclass(frozen=True)
class Probe:
    """Something measured while training, after the given epochs (0: before the first step) or steps."""

    measure: Measure
    epochs: frozenset[int] = frozenset()
    steps: frozenset[int] = frozenset()
    on_device: bool = False
    """Whether it measures the networks where they train; otherwise it is given them on the CPU."""


@dataclass
class Trained:
    """What a training leaves; the rows of `last`, `best` and the snapshots are the runs in the order given."""

    history: pd.DataFrame
    """One row per run and epoch: run, epoch, train_loss, train_accuracy and <set>_accuracy for each evaluated set."""
    measured: pd.DataFrame
    """The probes' rows."""
    last: Tensor
    """(R, P): the parameters at each run's end."""
    best: Tensor
    """(R, P): those after the epoch best on the first evaluated set; the earliest where several are."""
    snapshots: dict[int, Tensor]
    """(R, P) after the epochs asked for; of a run that had ended, its last."""

    def accuracies(self, of: str = "test") -> pd.DataFrame:
        """Both protocols, one row per run: `best` over the epochs (the papers'), `last`, both in percent, `epochs`."""
        groups = self.history.sort_values(["run", "epoch"]).groupby("run", sort=True)
        column = f"{of}_accuracy"
        table = groups.agg(best=(column, "max"), last=(column, "last"), epochs=("epoch", "max"))
        return (table * {"best": 100.0, "last": 100.0, "epochs": 1.0}).reset_index()


def train(
    nets: Networks,
    examples: Examples,
    recipe: TrainingRecipe,
    runs: TrainingRuns,
    *,
    label: str,
    evaluate: Mapping[str, Examples] | None = None,
    probes: Sequence[Probe] = (),
    checkpoint: Checkpoint | None = None,
) -> Trained:
    """Train `nets` on `examples`, measuring accuracy on the sets of `evaluate` after every epoch.

    `nets` end up with fewer runs where some stop early. It runs on the process's device (device.py) and leaves `nets`
    and everything it returns on the CPU; probes that do not ask for the device are given networks on the CPU.
    """
    with on_device(nets) as device:
        seen = {name: one.to(device) for name, one in (evaluate or {}).items()}
        session = TrainingSession(nets, recipe, runs, seen, probes, label)
        if checkpoint is None or not session.resume(checkpoint):
            session.probe_epoch()
        _train_epochs(session, Batches(examples.to(device), recipe.batch_size, recipe.augment), checkpoint)
    return session.result()


def _train_epochs(session: TrainingSession, batches: Batches, checkpoint: Checkpoint | None) -> None:
    """All epochs that are left."""
    epochs, saved = session.recipe.epochs, time.monotonic()
    steps_per_epoch = -(-len(batches.examples) // batches.batch)
    with tqdm(total=epochs * steps_per_epoch, desc=session.label, unit="step", disable=None) as bar:
        bar.update(session.epoch * steps_per_epoch)
        while session.active and session.epoch < epochs:
            session.train_epoch(batches, bar.update)
            if checkpoint and time.monotonic() - saved >= checkpoint.every_seconds:
                session.store(checkpoint)
                saved = time.monotonic()
    if checkpoint:
        session.store(checkpoint)


@dataclass(frozen=True, eq=False)
class StepBlock:
    """Steps taken: `losses` (S, R) before each, `right` (S, R) examples of the batch, and its `sizes` (S,)."""

    losses: Tensor
    right: Tensor
    sizes: Tensor


class TrainingSession:
    """A training under way: the runs still active, and what was recorded so far."""

    def __init__(
        self,
        nets: Networks,
        recipe: TrainingRecipe,
        runs: TrainingRuns,
        evaluate: Mapping[str, Examples],
        probes: Sequence[Probe],
        label: str,
    ) -> None:
        self.nets, self.recipe, self.runs, self.evaluate, self.probes = nets, recipe, runs, evaluate, probes
        self.label = label
        self.active = list(runs.numbers)
        self.slot_of = {run: slot for slot, run in enumerate(runs.numbers)}
        self.optimiser = StackedOptimiser(recipe.optimiser, nets.parameters, runs.learning_rates)
        self.loss = LOSSES[recipe.loss]
        self.compiled: CompiledSteps | None = None
        self.epoch = 0
        self.last, self.best = nets.parameters.rows(), nets.parameters.rows()
        self.best_accuracy = np.full(len(runs.numbers), -1.0)
        self.snapshots: dict[int, Tensor] = {}
        self.history: list[dict[str, Any]] = []
        self.measured: list[dict[str, Any]] = []

    def train_epoch(self, batches: Batches, on_step: Callable[[int], Any]) -> None:
        """One pass over the data, then what is measured after it."""
        self.epoch += 1
        factor = self.recipe.schedule(self.epoch)
        losses = torch.zeros(len(self.active), dtype=torch.float64)
        right = torch.zeros(len(self.active), dtype=torch.int64)
        broken = torch.zeros(len(self.active), dtype=torch.bool)
        for block in self.blocks(batches, factor):
            finite = torch.isfinite(block.losses)
            if not finite.all():
                broken |= ~finite.all(dim=0)
                self.complain(finite)
            losses += (block.losses * block.sizes[:, None]).sum(dim=0)
            right += block.right.sum(dim=0)
            self.probe_step()
            on_step(len(block.sizes))
        count = len(batches.examples)
        self.record((losses / count).tolist(), (right / count).tolist(), broken.tolist())

    def blocks(self, batches: Batches, factor: float) -> Iterator[StepBlock]:
        """The steps of the epoch: many at a time in compiled code where that knows how, up to the next that a probe
        asks for, otherwise one by one.
        """
        count, size = len(batches.examples), batches.batch
        order, seed = self.runs.order_of(self.active), self.runs.seed
        if self.compiled is None and self.recipe.backend != "torch" and batches.augment is None:
            self.compiled = self.compile(batches)
        if self.compiled is None:
            for inputs, labels in batches.of_epoch(order, seed, self.epoch):
                losses, outputs = self.descend(inputs, labels, factor)
                right = hits(outputs, labels)
                yield StepBlock(losses[None].cpu(), right[None].cpu(), torch.tensor([inputs.shape[1]]))
            return
        places = epoch_order(order, seed, self.epoch, count)
        step, last = 0, -(-count // size)
        watched = sorted({wanted for probe in self.probes for wanted in probe.steps})
        while step < last:
            ahead = [wanted - self.optimiser.steps for wanted in watched if wanted > self.optimiser.steps]
            stop = min(step + min([BLOCK_STEPS, *ahead]), last)
            losses, right = self.compiled.take(places[:, step * size : stop * size], factor)
            sizes = [min(size, count - start * size) for start in range(step, stop)]
            yield StepBlock(losses, right, torch.tensor(sizes))
            step = stop

    def compile(self, batches: Batches) -> CompiledSteps | None:
        on_cpu = batches.rows.device.type == CPU
        if on_cpu and knows(self.nets, self.optimiser, self.recipe.loss, batches.examples):
            return CompiledSteps(self.nets, self.optimiser, self.recipe.loss, batches.examples, batches.batch)  # type: ignore[arg-type]
        if self.recipe.backend == "native":
            raise TangentbenchError(f"{self.label}: compiled training steps do not know this network or this machine")
        return None

    def descend(self, inputs: Tensor, labels: Tensor, factor: float) -> tuple[Tensor, Tensor]:
        """One step; the losses (R,) and outputs before it."""
        self.nets.parameters.zero_gradients()
        outputs = self.nets.outputs(inputs, training=True)
        losses = self.loss(outputs, labels)
        # runs share no parameter, so the gradient of the sum holds each run's own
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.optimiser.step(factor)
        return losses.detach(), outputs.detach()

    def complain(self, finite: Tensor) -> None:
        """`finite` (S, R): which losses of the last S steps are numbers."""
        if self.recipe.diverging == "raise":
            place, slot = (~finite).nonzero()[0].tolist()
            setting = f"{self.label}, run {self.active[slot]}, learning rate {self.optimiser.learning_rates[slot]:g}"
            raise Diverged("the training loss", self.optimiser.steps - len(finite) + place + 1, setting)

    def record(self, losses: list[float], train_accuracy: list[float], broken: list[bool]) -> None:
        accuracies = {name: self.accuracy(examples) for name, examples in self.evaluate.items()}
        first = next(iter(accuracies.values()), None)
        parameters = self.nets.parameters.rows()
        ended = []
        for slot, run in enumerate(self.active):
            place = self.slot_of[run]
            of_sets = {f"{name}_accuracy": 0.0 if broken[slot] else float(of[slot]) for name, of in accuracies.items()}
            row = {"run": run, "epoch": self.epoch, "train_loss": losses[slot], "train_accuracy": train_accuracy[slot]}
            self.history.append(row | of_sets)
            if first is not None and not broken[slot] and first[slot] > self.best_accuracy[place]:
                self.best_accuracy[place] = first[slot]
                self.best[place] = parameters[slot]
            if broken[slot] or train_accuracy[slot] >= self.recipe.stop_at_train_accuracy:
                ended.append(slot)
        if len(self.active) == len(self.runs.numbers):
            self.last = parameters
        else:
            self.last[[self.slot_of[run] for run in self.active]] = parameters
        if self.epoch in self.recipe.snapshot_epochs:
            self.snapshots[self.epoch] = self.last.clone()
        self.probe_epoch()
        if ended:
            self.drop(ended)

    def drop(self, ended: Sequence[int]) -> None:
        kept = [slot for slot in range(len(self.active)) if slot not in ended]
        self.keep(kept)

    def keep(self, slots: Sequence[int]) -> None:
        self.active = [self.active[slot] for slot in slots]
        if self.active:
            self.nets.keep(slots)
            self.optimiser.keep(slots, self.nets.parameters)

    @torch.no_grad()
    def accuracy(self, examples: Examples) -> np.ndarray:
        right = torch.zeros(len(self.active), dtype=torch.int64)
        for inputs, labels in examples.shared(len(self.active), self.recipe.evaluation_batch):
            right += hits(self.nets.outputs(inputs), labels).cpu()
        return right.numpy() / len(examples)

    def probe_epoch(self) -> None:
        for probe in self.probes:
            if self.epoch in probe.epochs:
                rows = probe.measure(self.networks_for(probe), self.active, self.epoch)
                self.measured += [{"epoch": self.epoch} | row for row in rows]

    def probe_step(self) -> None:
        steps = self.optimiser.steps
        for probe in self.probes:
            if steps in probe.steps:
                rows = probe.measure(self.networks_for(probe), self.active, steps)
                self.measured += [{"step": steps} | row for row in rows]

    def networks_for(self, probe: Probe) -> Networks:
        """What the probe measures: the networks themselves, or a copy on the CPU."""
        if probe.on_device or all(tensor.device.type == CPU for tensor in self.nets.parameters.tensors.values()):
            return self.nets
        twin = copy.deepcopy(self.nets)
        move(twin, CPU)
        return twin

    def store(self, checkpoint: Checkpoint) -> None:
        facts = {
            "epoch": self.epoch,
            "active": self.active,
            "steps": self.optimiser.steps,
            "best_accuracy": self.best_accuracy.tolist(),
            "history": self.history,
            "measured": self.measured,
        }
        tensors = {"last": self.last, "best": self.best, "buffers": self.nets.buffers.rows()}
        tensors |= {f"snapshot_{epoch}": rows for epoch, rows in self.snapshots.items()}
        if self.active:
            tensors |= {f"optimiser_{name}": values for name, values in self.optimiser.state().items()}
        checkpoint.save(facts, tensors)

    def resume(self, checkpoint: Checkpoint) -> bool:
        """Go on where the file ends; False where there is none of this training."""
        found = checkpoint.load()
        if found is None:
            return False
        facts, tensors = found.facts, found.tensors
        slots = [self.slot_of[run] for run in facts["active"]]
        self.keep(slots)
        self.epoch = facts["epoch"]
        self.best_accuracy = np.array(facts["best_accuracy"])
        self.history, self.measured = facts["history"], facts["measured"]
        self.last, self.best = tensors["last"], tensors["best"]
        prefix = "snapshot_"
        self.snapshots = {
            int(name.removeprefix(prefix)): rows for name, rows in tensors.items() if name.startswith(prefix)
        }
        if self.active:
            self.nets.parameters.load(self.last[slots])
            self.nets.buffers.load(tensors["buffers"])
            prefix = "optimiser_"
            state = {name.removeprefix(prefix): rows for name, rows in tensors.items() if name.startswith(prefix)}
            self.optimiser.load_state(state, facts["steps"])
        return True

    def result(self) -> Trained:
        snapshots = {epoch: self.snapshots.get(epoch, self.last) for epoch in self.recipe.snapshot_epochs}
        return Trained(pd.DataFrame(self.history), pd.DataFrame(self.measured), self.last, self.best, snapshots)
