"""Kernels of wide networks.

`cntk`, `ntk`, `exact` (of `myrtle`, `resnet50` or any layers of `kernels.network`): exact, infinitely wide. `plan` says
what would compute one and for how long.
`empirical_ntk`, `npk`: of finite networks and of their gates.
Matrices on disk are in `tangentbench.gram`, what is fitted on them in `tangentbench.solvers`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tangentbench.kernels.architectures import myrtle, resnet50
from tangentbench.kernels.choice import plan
from tangentbench.kernels.dense import ntk
from tangentbench.kernels.exact import Kernels, cntk, exact

if TYPE_CHECKING:
    from tangentbench.kernels.finite import empirical_ntk
    from tangentbench.kernels.path import neural_path_kernel as npk

__all__ = [
    "Kernels",
    "cntk",
    "empirical_ntk",
    "exact",
    "layered_kernel",
    "myrtle",
    "npk",
    "ntk",
    "plan",
    "resnet50",
]

layered_kernel = exact

# These two need torch, whose import takes longer than many a tile of a Gram matrix.
_ON_DEMAND = {"empirical_ntk": ("finite", "empirical_ntk"), "npk": ("path", "neural_path_kernel")}


def __getattr__(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, function = _ON_DEMAND[name]
    return getattr(import_module(f"{__name__}.{module}"), function)
