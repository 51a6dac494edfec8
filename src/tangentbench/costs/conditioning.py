"""Work of the conditioning study's artifacts."""

from __future__ import annotations

from collections.abc import Sequence

from tangentbench.costs import Work, work

ENTRY_FLOPS = 3000
"""The dual activation of one entry in one layer, as matrix-product operations that take as long (measured)."""
EIGENVALUE_FLOPS = 7
"""For each n^3 of a symmetric matrix's eigenvalues."""
PAIRS = 400
STEP_FLOPS_A_WEIGHT = 6
"""Multiply and add, for the forward product, the backward one and the gradient."""
TYPICAL_STEPS = 100


@work("conditioning_table_mu")
@work("conditioning_fig2")
@work("conditioning_fig6")
def closed_forms(**_: object) -> Work:
    """Closed forms and integrals over one Gaussian: a second at any scale, which the job's start outweighs."""
    return Work()


@work("conditioning_theorem3")
@work("conditioning_theorem5")
def deep_kernels(
    *,
    activations: Sequence[object],
    uncentred_activations: Sequence[object],
    depth_max: int,
    records: int,
    images: int,
    **_: object,
) -> Work:
    """Two sets of images and the pairs; activations whose correlations vanish early cost less than this."""
    entries = images * (images - 1) / 2
    layers = (2 * entries + PAIRS) * depth_max * ENTRY_FLOPS
    spectra = 2 * records * EIGENVALUE_FLOPS * images**3
    flops = (len(activations) + len(uncentred_activations)) * (layers + spectra)
    return Work({"dense_gflop": flops / 1e9}, memory_gib=(10 * entries + 4 * images**2) * 8 / 2**30)


@work("conditioning_training")
def descent(
    *,
    activations: Sequence[object],
    uncentred_activations: Sequence[object],
    depths: Sequence[int],
    images: int,
    runs: int,
    width: int,
    top_width: int,
    **_: object,
) -> Work:
    """Training all layers outweighs the rest; deeper networks take fewer steps than the typical number."""
    families = len(activations) + len(uncentred_activations)
    weights = sum(depths) * width**2
    flops = families * runs * images * weights * STEP_FLOPS_A_WEIGHT * TYPICAL_STEPS
    largest = max(depths) * runs * max(width, top_width) * (max(width, top_width) + 3 * images)
    return Work({"dense_gflop": flops / 1e9}, memory_gib=2 * largest * 4 / 2**30)
