"""Exact kernels of infinitely wide networks."""

from tangentbench.kernels.cntk import cntk
from tangentbench.kernels.fully_connected import ntk

__all__ = ["cntk", "ntk"]
