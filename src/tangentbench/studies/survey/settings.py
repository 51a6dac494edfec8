"""What the survey's settings mean, for its measurements and for their cost model: nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tangentbench.errors import UnknownName
from tangentbench.kernels.layers import Network, myrtle, resnet50

RESNET_CHANNELS = 64
FINITE = "finite"
"""The way to compute a kernel by a finite network."""


def network_named(name: str, settings: Mapping[str, Any], outputs: int) -> Network:
    """The network named, with `outputs` outputs; settings are keyword arguments of its builder."""
    builders: dict[str, Callable[..., Network]] = {"myrtle": myrtle, "resnet50": resnet50}
    if name not in builders:
        raise UnknownName("architecture", name, list(builders))
    given = dict(settings)
    if "width_factor" in given:
        given["width"] = max(1, round(RESNET_CHANNELS * given.pop("width_factor")))
    return builders[name](outputs=outputs, **given)


def ways(kernels: Sequence[str], backends: Sequence[str]) -> list[tuple[str, str]]:
    """Every kernel with every way to compute it; the finite network has one."""
    return [
        (kernel, backend) for kernel in kernels for backend in ([FINITE] if kernel == "empirical_ntk" else backends)
    ]
