"""Losses and numbers of correct answers of stacked runs, one value per run."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Loss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """The mean over the batch for each run; `outputs` (R, B, k), `labels` (R, B) whole numbers."""
    runs, batch, classes = outputs.shape
    each = F.cross_entropy(outputs.reshape(runs * batch, classes), labels.reshape(-1), reduction="none")
    return each.view(runs, batch).mean(dim=1)


def squared(outputs: Tensor, labels: Tensor) -> Tensor:
    """The mean over the batch of 1/2 ||output - target||^2 for each run; `labels` (R, B, k)."""
    return (outputs - labels).square().sum(dim=2).mean(dim=1) / 2


def squared_norm(outputs: Tensor, labels: Tensor) -> Tensor:
    """The mean over the batch of ||output - target||^2, as thesis 5.4 writes its squared error."""
    return 2 * squared(outputs, labels)


LOSSES: dict[str, Loss] = {"cross_entropy": cross_entropy, "squared": squared, "squared_norm": squared_norm}


def hits(outputs: Tensor, labels: Tensor) -> Tensor:
    """How many of the batch each run has right, (R,): the largest output is the class, or the sign is the target's."""
    if labels.dim() == 2:
        return (outputs.argmax(dim=2) == labels).sum(dim=1)
    if labels.shape[2] == 1:
        return (torch.sign(outputs) == torch.sign(labels)).sum(dim=(1, 2))
    return (outputs.argmax(dim=2) == labels.argmax(dim=2)).sum(dim=1)
