"""A kernel by its settings, as a plan or a store's manifest holds them: {"name": "cntk", "depth": 6, ...}."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.gram.store import Array, Kernel
from tangentbench.kernels.choice import Backend
from tangentbench.kernels.dense import ntk
from tangentbench.kernels.exact import cntk

KERNELS: dict[str, Callable[..., Array]] = {"cntk": cntk, "ntk": ntk}
NOT_SETTINGS = {"x1", "x2", "computing"}
"""How a kernel is computed, which must not change what is computed."""


def named_kernel(
    settings: Mapping[str, Any], *, threads: int = 1, backend: Backend = "auto", dtype: Any = None
) -> Kernel:
    """The function behind `settings`: `name` is cntk or ntk, the rest its keyword arguments.

    threads, backend, dtype: of the CNTK's computation; ntk always computes in double precision.
    """
    wanted = dict(settings)
    name = wanted.pop("name", None)
    if name not in KERNELS:
        raise UnknownName("kernel", str(name), KERNELS)
    known = set(inspect.signature(KERNELS[name]).parameters) - NOT_SETTINGS
    if unknown := sorted(set(wanted) - known):
        raise TangentbenchError(
            f"the kernel {name} has no setting {', '.join(unknown)}: it has {', '.join(sorted(known))}"
        )
    if name == "ntk":
        return partial(flat_ntk, **wanted)
    return partial(cntk, **wanted, threads=threads, backend=backend, dtype=dtype, progress=False)


def flat_ntk(x1: Array, x2: Array | None, **settings: Any) -> Array:
    """The kernel of a fully connected network, which sees an image as one vector."""
    return np.asarray(ntk(x1.reshape(len(x1), -1), None if x2 is None else x2.reshape(len(x2), -1), **settings))
