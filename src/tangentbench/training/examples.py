"""Labelled inputs as tensors, and the order in which each run sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tangentbench.models.initialisation import stream

ORDER = 7
"""Tells the streams of the data's order from those of the weights."""


@dataclass(frozen=True, eq=False)
class Examples:
    """`inputs` (n, ...), and `labels`: whole numbers (n,) of classes or targets (n, k)."""

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def shared(self, runs: int, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches (R, B, ...) in their own order, the same for every run; nothing is copied."""
        for start in range(0, len(self), batch):
            inputs, labels = self.inputs[start : start + batch], self.labels[start : start + batch]
            yield inputs.expand(runs, *inputs.shape), labels.expand(runs, *labels.shape)


def shuffled(runs: Sequence[int], seed: int, epoch: int, count: int) -> Tensor:
    """The order (R, n) of each run's epoch: a function of (seed, run, epoch) alone, so that nothing need be stored."""
    return torch.stack([torch.randperm(count, generator=stream(seed, run, ORDER, epoch)) for run in runs])


class Batches:
    """Batches of each run's own order, gathered into buffers that are used again at every step."""

    def __init__(self, examples: Examples, batch: int) -> None:
        self.examples, self.batch = examples, batch
        self.rows = examples.inputs.flatten(1).contiguous()
        self.buffer = torch.empty(0)

    def of_epoch(self, runs: Sequence[int], seed: int, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs (R, B, ...) and labels (R, B) or (R, B, k); the last batch may be smaller, as in Keras."""
        order = shuffled(runs, seed, epoch, len(self.examples))
        for start in range(0, len(self.examples), self.batch):
            chosen = order[:, start : start + self.batch]
            places = chosen.reshape(-1)
            if len(self.buffer) != len(places):
                self.buffer = torch.empty(len(places), self.rows.shape[1], dtype=self.rows.dtype)
            torch.index_select(self.rows, 0, places, out=self.buffer)
            yield self.buffer.view(*chosen.shape, *self.examples.inputs.shape[1:]), self.examples.labels[chosen]
