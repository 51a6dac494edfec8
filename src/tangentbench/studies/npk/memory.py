"""How many runs train together: as many as fit into a fixed amount of memory."""

from __future__ import annotations

from tangentbench.networks.architecture import Architecture

TOGETHER_BYTES = 3 * 2**30
"""What the parameters of runs that train together may take; more runs are trained in turn."""
BYTES_PER_PARAMETER = 24
"""Parameters, gradient, two moments, the best and the last ones, in float32."""


def runs_together(architecture: Architecture) -> int:
    return max(1, TOGETHER_BYTES // (BYTES_PER_PARAMETER * architecture.parameter_count))
