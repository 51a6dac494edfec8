"""A kernel by its settings, as a plan or a store's manifest holds them: {"name": "cntk", "depth": 6, ...}."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tangentbench.gram.identity import LAYERS, KernelLike, identity, network_of
from tangentbench.gram.store import Array
from tangentbench.kernels.choice import Backend
from tangentbench.kernels.dense import ntk
from tangentbench.kernels.exact import cntk, exact


@dataclass(frozen=True)
class NamedKernel:
    """A kernel that knows which one it is, so that a store can tell without trying it."""

    identity: Mapping[str, Any]
    function: Callable[[Array, Array | None], Array]

    def __call__(self, x1: Array, x2: Array | None) -> Array:
        return self.function(x1, x2)


def named_kernel(
    settings: KernelLike, *, threads: int = 1, backend: Backend = "auto", dtype: Any = None
) -> NamedKernel:
    """The function behind `settings`: cntk, ntk, myrtle, resnet50 or layers, and the settings of that one.

    threads, backend, dtype: of the computation; ntk always computes in double precision.
    """
    full = identity(settings)
    name, wanted = full["name"], {key: value for key, value in full.items() if key != "name"}
    computing: dict[str, Any] = {"threads": threads, "backend": backend, "dtype": dtype, "progress": False}
    if name == "ntk":
        return NamedKernel(full, partial(flat_ntk, **wanted))
    if name == LAYERS:
        network = network_of(wanted["network"])
        return NamedKernel(full, partial(exact, network=network, kind=wanted["kind"], **computing))
    return NamedKernel(full, partial(cntk, **wanted, **computing))


def flat_ntk(x1: Array, x2: Array | None, **settings: Any) -> Array:
    """The kernel of a fully connected network, which sees an image as one vector."""
    return np.asarray(ntk(x1.reshape(len(x1), -1), None if x2 is None else x2.reshape(len(x2), -1), **settings))
