"""Full-batch gradient descent of a batch of runs, recorded at given steps and resumable after a kill."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from tangentbench.errors import Diverged
from tangentbench.networks.stack import on_device
from tangentbench.training.checkpoint import Checkpoint


class Descending(Protocol):
    """A batch of R runs that train together."""

    def descend(self, learning_rates: Tensor, /) -> Tensor:
        """Take one step; return the errors before it, shape (R, n)."""

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that training changes, on the CPU."""

    def load_state(self, state: dict[str, np.ndarray], /) -> None: ...


def log_spaced_steps(last: int, count: int) -> list[int]:
    """At most `count` whole numbers from 0 to `last`, denser at the beginning, both ends among them."""
    return sorted({0, *np.unique(np.geomspace(1, last, count - 1).round().astype(int)).tolist()})


def descend(
    nets: Descending,
    learning_rates: Tensor,
    record_at: Sequence[int],
    *,
    label: str,
    stop_below: float = 0.0,
    checkpoint: Checkpoint | None = None,
    on_step: Callable[[int], None] = lambda step: None,
) -> np.ndarray:
    """Squared errors ||e_t||^2 of every run at the steps `record_at` (ascending), shape (len(record_at), R).

    `record_at` begins with 0. Training ends with the last of these steps, or at the first of them where the squared
    error of every run is at most `stop_below` times that at step 0; what was not reached is NaN. `on_step` is called
    with the number of steps done, also those found in the checkpoint. Raises Diverged, naming `label`, where an error
    is no longer a number. Steps are taken on the process's device (device.py), and `nets` come back to the CPU.
    """
    with on_device(nets) as place:
        return _take_steps(nets, learning_rates.to(place), record_at, label, stop_below, checkpoint, on_step)


def _take_steps(
    nets: Descending,
    learning_rates: Tensor,
    record_at: Sequence[int],
    label: str,
    stop_below: float,
    checkpoint: Checkpoint | None,
    on_step: Callable[[int], None],
) -> np.ndarray:
    """What `descend` does, with networks and step sizes on one device."""
    slots = {step: slot for slot, step in enumerate(record_at)}
    last = record_at[-1]
    start, measured = 0, np.full((len(record_at), len(learning_rates)), np.nan)
    if checkpoint and (found := checkpoint.load()):
        start, measured = found.facts["step"], found.arrays.pop("measured")
        nets.load_state(found.arrays)
    saved = time.monotonic()
    on_step(start)
    for step in range(start, last + 1):
        errors = nets.descend(learning_rates)
        squared = errors.square().sum(dim=1, dtype=torch.float64).cpu().numpy()
        if not np.isfinite(squared).all():
            runs = ", ".join(str(run) for run in np.flatnonzero(~np.isfinite(squared)))
            raise Diverged("the training error", step, f"{label} (run {runs} of the batch)")
        if step in slots:
            measured[slots[step]] = squared
            if (squared <= stop_below * measured[0]).all():
                last = step
        on_step(step + 1)
        if checkpoint and step < last and time.monotonic() - saved >= checkpoint.every_seconds:
            checkpoint.save({"step": step + 1}, {"measured": measured, **nets.state()})
            saved = time.monotonic()
        if step == last:
            break
    if checkpoint:
        # a finished training leaves only its measurements, and no step to take
        checkpoint.save({"step": record_at[-1] + 1}, {"measured": measured})
    return measured
