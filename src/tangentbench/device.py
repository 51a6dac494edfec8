"""On which device torch computes: chosen once for a process, like its number of threads.

`auto` is the first CUDA device where there is one, else the CPU. Networks and data are drawn on the CPU, whatever the
device, so that a seed means the same numbers everywhere; they are moved before the work begins.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tangentbench.errors import TangentbenchError

if TYPE_CHECKING:
    import torch

AUTO, CPU, CUDA = "auto", "cpu", "cuda"
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
NAMES = re.compile(r"auto|cpu|cuda(:\d+)?")
DEVICE_VARIABLE = "TANGENTBENCH_DEVICE"
"""Carries the choice from the workflow to its jobs; it can also be set by hand for a script."""


class NoSuchDevice(TangentbenchError):
    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"device '{name}' cannot be used: {reason}")


def choose(name: str) -> None:
    """Make `name` the device of this process. torch is not imported for it: not every job needs it."""
    if not NAMES.fullmatch(name):
        raise NoSuchDevice(name, "the names are auto, cpu, cuda and cuda:N (`device` in config/config.yaml)")
    os.environ[DEVICE_VARIABLE] = name
    if name == CPU:
        os.environ["JAX_PLATFORMS"] = CPU
    # Without this jax takes three quarters of the GPU's memory at its first use, and torch finds none.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def on_gpu() -> bool:
    """Whether the process's device is a GPU. Where Nvidia's driver is missing the answer costs no import of torch."""
    name = os.environ.get(DEVICE_VARIABLE, AUTO)
    if name == CPU or (name == AUTO and not NVIDIA_DRIVER.exists()):
        return False
    return current().type != CPU


def current() -> torch.device:
    """The device of this process (`auto` if none was chosen), with float32 arithmetic that is float32."""
    import torch

    # TF32 keeps ten bits of a factor: kernels and the last digits of a training would not be those of the CPU.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    # The fastest algorithm of a trial run may be another one next time.
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    return torch.device(resolve(os.environ.get(DEVICE_VARIABLE, AUTO)))


def resolve(name: str) -> str:
    """`auto` and `cuda` as the device they mean here: `cpu` or `cuda:N`."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == CPU or (name == AUTO and count == 0):
        return CPU
    if name == AUTO:
        return "cuda:0"
    number = int(name.partition(":")[2] or 0)
    if count == 0:
        build = "its build has CUDA but finds no GPU" if torch.version.cuda else "its build is for the CPU only"
        raise NoSuchDevice(name, f"torch sees none ({build}); `tangentbench doctor` says more, `device: auto` goes on")
    if number >= count:
        raise NoSuchDevice(name, f"there are {count}, numbered from 0")
    return f"cuda:{number}"
