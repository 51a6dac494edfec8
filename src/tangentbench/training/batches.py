"""Labelled inputs as tensors, the order in which each run sees them, and their augmentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tangentbench.errors import TangentbenchError
from tangentbench.networks.initialisation import stream

ORDER, AUGMENTATION = 7, 8
"""Tell the streams of the data's order and of augmentation from those of the weights."""

PADDING = 4
"""Zeros around an image before the crop, as for CIFAR-10 since He et al. (2016)."""

Augment = Callable[[Tensor, torch.Generator], Tensor]
"""A batch of inputs (B, ...) of one run to inputs of the same shape."""


@dataclass(frozen=True, eq=False)
class Examples:
    """`inputs` (n, ...), and `labels`: whole numbers (n,) of classes or targets (n, k)."""

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def to(self, device: torch.device) -> Examples:
        return Examples(self.inputs.to(device), self.labels.to(device))

    def shared(self, runs: int, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches (R, B, ...) in their own order, the same for every run; nothing is copied."""
        for start in range(0, len(self), batch):
            inputs, labels = self.inputs[start : start + batch], self.labels[start : start + batch]
            yield inputs.expand(runs, *inputs.shape), labels.expand(runs, *labels.shape)


def held_out(examples: Examples, count: int, seed: int) -> tuple[Examples, Examples]:
    """Examples without `count` random ones, and these."""
    if count >= len(examples):
        raise TangentbenchError(f"cannot hold out {count} of {len(examples)} training images: leave some to train on")
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(seed))
    held, kept = order[:count], order[count:].sort().values
    return Examples(examples.inputs[kept], examples.labels[kept]), Examples(
        examples.inputs[held], examples.labels[held]
    )


def epoch_order(runs: Sequence[int], seed: int, epoch: int, count: int) -> Tensor:
    """The order (R, n) of each run's epoch: a function of (seed, run, epoch) alone, so that nothing need be stored."""
    return torch.stack([torch.randperm(count, generator=stream(seed, run, ORDER, epoch)) for run in runs])


class Batches:
    """Batches of each run's own order, gathered into buffers that are used again at every step."""

    def __init__(self, examples: Examples, batch: int, augment: Augment | None = None) -> None:
        self.examples, self.batch, self.augment = examples, batch, augment
        self.rows = examples.inputs.flatten(1).contiguous()
        self.buffer = torch.empty(0)

    def of_epoch(self, runs: Sequence[int], seed: int, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs (R, B, ...) and labels (R, B) or (R, B, k); the last batch may be smaller, as in Keras."""
        order = epoch_order(runs, seed, epoch, len(self.examples)).to(self.rows.device)
        generators = [stream(seed, run, AUGMENTATION, epoch) for run in runs]
        for start in range(0, len(self.examples), self.batch):
            chosen = order[:, start : start + self.batch]
            places = chosen.reshape(-1)
            if len(self.buffer) != len(places):
                self.buffer = self.rows.new_empty(len(places), self.rows.shape[1])
            torch.index_select(self.rows, 0, places, out=self.buffer)
            inputs = self.buffer.view(*chosen.shape, *self.examples.inputs.shape[1:])
            if self.augment is not None:
                changed = [self.augment(own.cpu(), one) for own, one in zip(inputs, generators, strict=True)]
                inputs = torch.stack(changed).to(inputs.device)
            yield inputs, self.examples.labels[chosen]


def crop_and_flip(images: Tensor, generator: torch.Generator, padding: int = PADDING) -> Tensor:
    """Images (B, channels, height, width), each moved by up to `padding` pixels and mirrored with probability 1/2.

    What moves in from outside is zero. The result depends on images and generator only.
    """
    count, _, height, width = images.shape
    offsets = torch.randint(0, 2 * padding + 1, (2, count), generator=generator)
    mirrored = torch.rand(count, generator=generator) < 0.5
    windows = functional.pad(images, (padding,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    cropped = windows[torch.arange(count), :, offsets[0], offsets[1]]
    return torch.where(mirrored[:, None, None, None], cropped.flip(3), cropped)
