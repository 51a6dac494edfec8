"""Memory of the deep networks' trainings, for grouping runs and for the work models."""

from __future__ import annotations

from tangentbench.networks.deep_architecture import DeepArchitecture

RUNS_TOGETHER_BYTES = 3 * 2**30
"""What runs that train together may take."""
PARAMETER_COPIES = 6
"""Parameters, gradient, momentum, last, best and a copy of them."""
TENSORS_PER_LAYER = 3
"""What a layer keeps for the backward pass."""
NUMBER_BYTES = 4


def parameter_bytes(architecture: DeepArchitecture) -> int:
    """All copies of one run's parameters."""
    return NUMBER_BYTES * PARAMETER_COPIES * architecture.parameters


def run_bytes(architecture: DeepArchitecture, batch_size: int) -> int:
    """Memory of one run: its parameters with their copies, and what the layers keep for the backward pass."""
    values = TENSORS_PER_LAYER * batch_size * architecture.hidden_values
    return parameter_bytes(architecture) + NUMBER_BYTES * values
