"""Random crops and flips, a function of the generator alone: the same for one seed, run and epoch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

PADDING = 4
"""Zeros around an image before the crop, as for CIFAR-10 since He et al. (2016)."""


def crop_and_flip(images: Tensor, generator: torch.Generator, padding: int = PADDING) -> Tensor:
    """Images (B, channels, height, width), each moved by up to `padding` pixels and mirrored with probability 1/2.

    What moves in from outside is zero.
    """
    count, _, height, width = images.shape
    offsets = torch.randint(0, 2 * padding + 1, (2, count), generator=generator)
    mirrored = torch.rand(count, generator=generator) < 0.5
    windows = functional.pad(images, (padding,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    cropped = windows[torch.arange(count), :, offsets[0], offsets[1]]
    return torch.where(mirrored[:, None, None, None], cropped.flip(3), cropped)
