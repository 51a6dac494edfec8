"""Kernels of wide networks.

`cntk`, `ntk`, `layered_kernel` (of `myrtle`, `resnet50` or a list of `kernels.layers`): exact, infinitely wide.
`empirical_ntk`, `npk`: of finite networks and of their gates.
Matrices on disk are in `tangentbench.gram`, what is fitted on them in `tangentbench.solvers`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tangentbench.kernels.cntk import cntk
from tangentbench.kernels.fully_connected import ntk
from tangentbench.kernels.layered import layered_kernel
from tangentbench.kernels.layers import myrtle, resnet50

if TYPE_CHECKING:
    from tangentbench.kernels.empirical import empirical_ntk
    from tangentbench.kernels.path_kernel import neural_path_kernel as npk

__all__ = [
    "cntk",
    "empirical_ntk",
    "layered_kernel",
    "myrtle",
    "npk",
    "ntk",
    "resnet50",
]

# These two need torch, whose import takes longer than many a tile of a Gram matrix.
_ON_DEMAND = {"empirical_ntk": ("empirical", "empirical_ntk"), "npk": ("path_kernel", "neural_path_kernel")}


def __getattr__(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, function = _ON_DEMAND[name]
    return getattr(import_module(f"{__name__}.{module}"), function)
