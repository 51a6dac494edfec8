"""Work of the neural-path-kernel study's artifacts."""

from __future__ import annotations

import math

from tangentbench.networks.architecture import Architecture, Conv, Dense, MemorisationSpec, Shape, fully_connected
from tangentbench.studies.npk.memory import BYTES_PER_PARAMETER, TOGETHER_BYTES
from tangentbench.studies.npk.settings import (
    DecoupledKernels,
    FlippingGates,
    FrozenGates,
    GateTable,
    IdealSpectrum,
    LabelAlignment,
    Memorisation,
    MemorisationDescent,
    Row,
    Stages,
    ToyNetwork,
    TrainingSettings,
)
from tangentbench.studies.work import Work, work
from tangentbench.theory.memorisation import largest_eigenvalue, smallest_eigenvalue

_FLOPS_PER_WEIGHT = 6
"""Multiply and add, for the forward product, the backward one and the gradient."""
_ELEMENTWISE_FLOPS = 230
"""Gates and copies of a hidden value, as matrix-product operations that take as long (measured at width 25)."""
_STEP_GFLOP = 0.1
"""What a step of one batch of runs costs beside its products: dispatch, losses, the optimiser's own start."""
_COMPILED_SHARE = 0.5
"""Compiled steps of digits take half the time of as many batched matrix products (measured): they skip zeros."""
_CONVOLUTION_SLOWDOWN = 3.0
"""Small convolutions run at a third of the speed of batched matrix products (measured)."""
_PASSES = {"relu": 1.0, "frozen": 4.0 / 3.0, "dnpfl": 2.0}
"""Work of a step against that of a ReLU network: frozen features add a forward pass, trained ones a whole network."""
_DRAW_FLOPS = 30
"""Drawing one sign, as matrix-product operations that take as long (measured)."""

_DIGITS: Shape = (28, 28, 1)
_PHOTOGRAPHS: Shape = (32, 32, 3)
_CLASSES = 10
_NUMBER_BYTES = {"float32": 4, "float64": 8}
_GIB = 2**30


@work("npk_fig1")
def toy_network(settings: ToyNetwork) -> Work:
    """Eighteen paths: the job's start outweighs them."""
    return Work()


@work("npk_fig5")
def ideal_spectrum(settings: IdealSpectrum) -> Work:
    """Seven matrices of side 200: the job's start outweighs them."""
    return Work()


@work("npk_fig6")
def memorisation(settings: Memorisation) -> Work:
    """Every step of every network; wide networks stop when the ideal kernel says so."""
    size = _NUMBER_BYTES[settings.precision]
    flops, numbers = 0.0, 0
    for spec in settings.networks():
        # The first layer has one input, but is counted like the others, as when the elementwise part was measured.
        per_example = spec.hidden_values * (_FLOPS_PER_WEIGHT * spec.width + _ELEMENTWISE_FLOPS)
        steps = _steps(spec, settings.descent)
        flops += steps * settings.runs * spec.examples * per_example * size / _NUMBER_BYTES["float32"]
        # the weights, and gates, hidden values and derivatives of every layer
        numbers = max(numbers, settings.runs * spec.hidden_values * (spec.width + 3 * spec.examples))
    gib = numbers * size / _GIB
    return Work({"network_gflop": flops / 1e9}, memory_gib=2 * gib, disk_gib=gib)


def _steps(spec: MemorisationSpec, descent: MemorisationDescent) -> int:
    """Steps until the slowest direction of the ideal kernel, which wide networks are near, has stopped descent."""
    largest = largest_eigenvalue(spec.examples, spec.depth, spec.gate_probability)
    slowest = smallest_eigenvalue(spec.depth, spec.gate_probability) / largest
    shrinking = descent.learning_rate_times_rho_max * slowest
    if spec.width < spec.examples or descent.stop_below == 0 or shrinking >= 1:
        return descent.steps
    return min(descent.steps, math.ceil(math.log(descent.stop_below) / (2 * math.log1p(-shrinking))))


def _products(architecture: Architecture) -> float:
    """Multiply-adds per image, those of convolutions counted as the matrix products that take as long."""
    return architecture.multiply_adds(Dense) + _CONVOLUTION_SLOWDOWN * architecture.multiply_adds(Conv)


def _training_gflop(
    products: float, images: int, epochs: int, batch_size: int, runs: float, step_gflop: float = _STEP_GFLOP
) -> float:
    """GFLOP of training one batch of `runs` runs; steps in compiled code cost nothing beside their products."""
    steps = epochs * math.ceil(images / batch_size)
    return epochs * images * runs * _FLOPS_PER_WEIGHT * products / 1e9 + steps * step_gflop


def _gflop(architecture: Architecture, training: TrainingSettings, images: int, passes: float = 1.0) -> float:
    """GFLOP of training all runs of one artifact together."""
    products = _products(architecture)
    return _training_gflop(products, images, training.epochs, training.batch_size, training.runs * passes)


@work("npk_table2")
def gate_table(settings: GateTable) -> Work:
    """All epochs of every column; runs that reach their train accuracy earlier make it cheaper."""
    gflop = sum(_row_gflop(settings, row) for row in settings.rows)
    memory = max(_row_memory(settings, row) for row in settings.rows)
    return Work({"network_gflop": gflop}, memory_gib=memory, disk_gib=0.5 * memory)


def _row_gflop(settings: GateTable, row: Row) -> float:
    """A row with a validation split is trained twice."""
    family = settings.family(row)
    protocols = 2 if family.validation_images else 1
    step_gflop = 0.0 if row.startswith("fc") else protocols * _STEP_GFLOP
    trials = protocols * _trials(settings, row)
    return sum(
        _training_gflop(
            _row_products(settings, row),
            family.train_images,
            family.epochs,
            settings.batch_size,
            trials * columns * _PASSES[mode],
            step_gflop,
        )
        for columns, mode in ((1, "relu"), (3, "frozen"), (1, "dnpfl"))
    )


def _row_memory(settings: GateTable, row: Row) -> float:
    """GiB of the runs that train together."""
    trials = _trials(settings, row)
    # Testing 500 images at a time outweighs the parameters; what it needs grows with the products too.
    tested = min(TOGETHER_BYTES, BYTES_PER_PARAMETER * trials * _row_products(settings, row)) / _GIB
    if row.startswith("fc"):
        return tested + 0.3
    return tested + 3 * _activation_gib(settings.conv.network.channels, trials, settings.batch_size)


def _row_products(settings: GateTable, row: Row) -> float:
    if row.startswith("fc"):
        return _COMPILED_SHARE * _products(settings.architecture(row, _DIGITS, _CLASSES))
    return _products(settings.architecture(row, _PHOTOGRAPHS, _CLASSES))


def _trials(settings: GateTable, row: Row) -> int:
    return settings.family(row).runs * len(settings.learning_rates(row))


def _activation_gib(channels: tuple[int, ...], runs: int, batch_size: int) -> float:
    """Values and derivatives of the convolutions, at the images' own side."""
    side, _, _ = _PHOTOGRAPHS
    return runs * batch_size * sum(channels) * side**2 * 2 * _NUMBER_BYTES["float32"] / _GIB


@work("npk_fig3a")
def stages(settings: Stages) -> Work:
    """The ReLU networks to the last stage, then the frozen ones of all stages and of random gates."""
    training = settings.training
    products = _products(settings.built(_PHOTOGRAPHS, _CLASSES))
    last = max(settings.checkpoint_epochs)
    gflop = _training_gflop(products, settings.train_images, last, training.batch_size, training.runs)
    frozen = training.runs * (len(settings.checkpoint_epochs) + 1)
    gflop += _training_gflop(
        products, settings.train_images, training.epochs, training.batch_size, frozen * _PASSES["frozen"]
    )
    memory = _activation_gib(settings.network.channels, frozen, training.batch_size)
    return Work({"network_gflop": gflop}, memory_gib=memory, disk_gib=0.1)


@work("npk_fig3b")
def label_alignment(settings: LabelAlignment) -> Work:
    """Training, and at every probe a path kernel and a solution of its linear system."""
    network, training = settings.network, settings.training
    architecture = network.architecture(_DIGITS, 1, biases=settings.biases)
    images = settings.kernel_images
    probe = images**3 + 2 * network.depth * network.width * images**2
    solves = _probes(training, settings.probe_every_epochs) * probe / 1e9
    learning = _gflop(architecture, training, settings.train_images)
    return Work({"network_gflop": learning, "dense_gflop": solves})


@work("npk_fig3c")
def value_and_feature_kernels(settings: DecoupledKernels) -> Work:
    """Training both networks, and at every probe two tangent kernels of all outputs."""
    training = settings.training
    architecture = settings.network.architecture(_DIGITS, _CLASSES)
    images = _CLASSES * settings.kernel_images_per_class
    kernels = 2 * _CLASSES * _products(architecture) * (_FLOPS_PER_WEIGHT * images + 2 * images**2) / 1e9
    probes = _probes(training, settings.probe_every_epochs) * kernels
    learning = _gflop(architecture, training, settings.train_images, _PASSES["dnpfl"])
    return Work({"network_gflop": learning + probes}, memory_gib=1.0)


def _probes(training: TrainingSettings, every_epochs: int) -> int:
    return training.runs * (training.epochs // every_epochs + 1)


@work("npk_theorem5_1")
def frozen_gates(settings: FrozenGates) -> Work:
    """Drawing the signs outweighs the products; float64."""
    widths = [*settings.widths, *(settings.padded_gate_width * times for times in settings.paddings)]
    weights = [
        fully_connected(_DIGITS, width, depth, 1, biases=False).parameter_count
        for depth in settings.depths
        for width in widths
    ]
    flops = 2 * settings.runs * sum(weights) * (4 * settings.images + _DRAW_FLOPS)
    memory = 2 * max(weights) * _NUMBER_BYTES["float64"] / _GIB
    return Work({"dense_gflop": flops / 1e9}, memory_gib=memory)


@work("npk_gates")
def flipping_gates(settings: FlippingGates) -> Work:
    architecture = settings.network.architecture(_DIGITS, _CLASSES)
    gflop = sum(
        _gflop(architecture, settings.training, settings.train_images, _PASSES[mode]) for mode in settings.modes
    )
    return Work({"network_gflop": gflop})
