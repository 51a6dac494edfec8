"""A device that is not the CPU, on a machine without a GPU: torch's `lazy` one, which every build has.

Its tensors are computed by TorchScript, hold true numbers, and refuse to be mixed with tensors of the CPU, as a GPU's
do.
"""

from __future__ import annotations

import functools

import pytest
import torch


@functools.cache
def lazy_device() -> torch.device:
    pytest.importorskip("torch._lazy.ts_backend", reason="this build of torch has no lazy device").init()
    return torch.device("lazy")
