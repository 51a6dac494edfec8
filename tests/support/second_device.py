"""A device that is not the CPU, on a machine without a GPU: torch's `lazy` one, which every build has.

Its tensors are computed by TorchScript, hold true numbers, and refuse to be mixed with tensors of the CPU, as a GPU's
do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._lazy


@functools.cache
def lazy_device() -> torch.device:
    pytest.importorskip("torch._lazy.ts_backend", reason="this build of torch has no lazy device").init()
    return torch.device("lazy")


def computed_at_once(monkeypatch: pytest.MonkeyPatch, method: str, *kinds: type) -> list[str]:
    """Compute each step of these networks before the next one, which this device would put off; where steps were taken.

    The list grows with every step.
    """
    lazy_device()
    devices = []

    def noted(step: Callable[..., Any]) -> Callable[..., Any]:
        def taken(self: Any, *arguments: Any) -> Any:
            result = step(self, *arguments)
            torch._lazy.mark_step()
            devices.append(next(one for one in vars(self).values() if isinstance(one, torch.Tensor)).device.type)
            return result

        return taken

    for kind in kinds:
        monkeypatch.setattr(kind, method, noted(getattr(kind, method)))
    return devices


def mend_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """This device's own split gives tensors that it does not take for its own; slices do."""

    def narrowed(tensor: torch.Tensor, sizes: list[int]) -> list[torch.Tensor]:
        starts = [sum(sizes[:place]) for place in range(len(sizes))]
        return [tensor.narrow(0, start, size) for start, size in zip(starts, sizes, strict=True)]

    monkeypatch.setattr(torch, "split", narrowed)
