"""Work of the conditioning study's artifacts."""

from __future__ import annotations

from tangentbench.networks.deep_architecture import DeepArchitecture
from tangentbench.studies.conditioning.memory import RUNS_TOGETHER_BYTES, parameter_bytes, run_bytes
from tangentbench.studies.conditioning.settings import DeepKernels, Descent, Trainings, TrainingSettings
from tangentbench.studies.settings import Settings
from tangentbench.studies.work import Work, summed_units, work

ENTRY_FLOPS = 3000
"""The dual activation of one entry in one layer, as matrix-product operations that take as long (measured)."""
EIGENVALUE_FLOPS = 7
"""Per n^3, for the eigenvalues of a symmetric matrix."""
PAIRS = 400
TYPICAL_STEPS = 100
"""Of gradient descent on all layers."""
PASSES = 3
"""Forward, backward and the gradient cost about the same."""
PASSES_PER_TEST = 1
ELEMENTWISE_FLOPS = 120
"""Normalisation and activation of a value, as matrix-product operations that take as long (measured)."""
CONVOLUTION_SHARE = 0.7
"""Time of the ResNets' convolutions relative to the priced ones, which have another layout in memory (measured)."""
IMAGE_COPIES = 3
NUMBER_BYTES = 4
GIB = 2**30


@work("conditioning_table_mu")
@work("conditioning_fig2")
@work("conditioning_fig6")
def closed_forms(settings: Settings) -> Work:
    """Closed forms and integrals over one Gaussian: a second at any scale, less than the start of the job."""
    return Work()


@work("conditioning_theorem3")
@work("conditioning_theorem5")
def deep_kernels(settings: DeepKernels) -> Work:
    """Two sets of images and the pairs; activations whose correlations vanish early cost less than this."""
    images = settings.images
    entries = images * (images - 1) / 2
    layers = (2 * entries + PAIRS) * settings.depth_max * ENTRY_FLOPS
    spectra = 2 * settings.records * EIGENVALUE_FLOPS * images**3
    families = len(settings.activations) + len(settings.uncentred_activations)
    flops = families * (layers + spectra)
    return Work({"dense_gflop": flops / 1e9}, memory_gib=(10 * entries + 4 * images**2) * 8 / GIB)


@work("conditioning_training")
def descent(settings: Descent) -> Work:
    """Training all layers dominates; deeper networks take fewer steps than the typical number."""
    families = len(settings.activations) + len(settings.uncentred_activations)
    weights = sum(settings.depths) * settings.all_layers.width**2
    flops = families * settings.runs * settings.images * 2 * weights * PASSES * TYPICAL_STEPS
    widest = max(settings.all_layers.width, settings.top_layer.width)
    largest = max(settings.depths) * settings.runs * widest * (widest + 3 * settings.images)
    return Work({"network_gflop": flops / 1e9}, memory_gib=2 * largest * NUMBER_BYTES / GIB)


@work("conditioning_fig1")
@work("conditioning_fig3")
@work("conditioning_fig4")
@work("conditioning_fig5")
@work("conditioning_fig7")
@work("conditioning_fig8")
def trainings(settings: Trainings) -> Work:
    """One training per network and normalisation; an artifact reuses another's training with the same settings."""
    pieces: dict[str, Work] = {}
    for network in settings.networks:
        for normalisation in settings.normalisations:
            one = settings.training(network, normalisation)
            pieces[repr(one)] = _training(one, settings.runs)
    images, numbers = settings.images, one.architecture.inputs
    data = NUMBER_BYTES * numbers * IMAGE_COPIES * (images.train + images.test) / GIB
    memory = data + max(piece.memory_gib for piece in pieces.values())
    disk = sum(piece.disk_gib for piece in pieces.values())
    return Work(summed_units(pieces.values()), memory, disk, reusable=pieces)


def _training(settings: TrainingSettings, runs: int) -> Work:
    """The search for a learning rate, and the runs."""
    architecture, images = settings.architecture, settings.images
    tests = (images.test + images.probe) * PASSES_PER_TEST / PASSES
    passes = runs * settings.schedule.epochs * (images.train + tests)
    candidates = len(settings.candidates)
    if settings.search is not None:
        passes += candidates * settings.search.epochs * images.train
    units = {unit: PASSES * passes * flops / 1e9 for unit, flops in _forward_flops(architecture).items()}
    per_run = run_bytes(architecture, settings.schedule.batch_size)
    together = min(runs * per_run, max(per_run, RUNS_TOGETHER_BYTES))
    disk = (candidates + runs) * parameter_bytes(architecture)
    return Work(units, memory_gib=together / GIB, disk_gib=disk / GIB)


def _forward_flops(architecture: DeepArchitecture) -> dict[str, float]:
    """One image through the network, by the unit that prices it."""
    layers = [*architecture.hidden_layers(), architecture.read_out()]
    convolutions = sum(layer.multiplications for layer in layers if layer.convolves)
    products = sum(layer.multiplications for layer in layers if not layer.convolves)
    flops = {"network_gflop": 2.0 * products + ELEMENTWISE_FLOPS * architecture.hidden_values}
    if convolutions:
        flops["convolution_gflop"] = CONVOLUTION_SHARE * 2.0 * convolutions
    return flops
