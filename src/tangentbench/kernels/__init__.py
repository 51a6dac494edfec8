"""Exact kernels of infinitely wide networks, kernels of gates, and empirical ones of given networks."""

from tangentbench.kernels.cntk import cntk
from tangentbench.kernels.empirical import empirical_ntk
from tangentbench.kernels.fully_connected import ntk
from tangentbench.kernels.npk import neural_path_kernel

__all__ = ["cntk", "empirical_ntk", "neural_path_kernel", "ntk"]
