"""Work of the neural-path-kernel study's artifacts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tangentbench.studies.work import Work, work
from tangentbench.theory.memorisation import largest_eigenvalue, smallest_eigenvalue

FLOPS_A_WEIGHT = 6
"""Multiply and add, for the forward product, the backward one and the gradient."""
ELEMENTWISE_FLOPS = 230
"""Gates and copies of a hidden value, as matrix-product operations that take as long (measured at width 25)."""
BYTES = {"float32": 4, "float64": 8}


@work("npk_fig1")
@work("npk_fig5")
def closed_forms(**_: object) -> Work:
    """Eighteen paths, seven matrices of side 200: the job's start outweighs them."""
    return Work()


@work("npk_fig6")
def memorisation(
    *,
    widths: Sequence[int],
    depths: Sequence[int],
    examples: int,
    gate_probability: float,
    runs: int,
    step: float,
    steps: int,
    stop_below: float,
    precision: str,
    **_: object,
) -> Work:
    flops, numbers = 0.0, 0
    for width in widths:
        for depth in depths:
            layers = depth - 1
            taken = steps
            if width >= examples:
                taken = min(steps, ideal_steps(examples, depth, gate_probability, step, stop_below))
            a_step = runs * examples * layers * width * (FLOPS_A_WEIGHT * width + ELEMENTWISE_FLOPS)
            flops += taken * a_step * BYTES[precision] / BYTES["float32"]
            # the weights, and gates, hidden values and derivatives of every layer
            numbers = max(numbers, runs * layers * width * (width + 3 * examples))
    gib = numbers * BYTES[precision] / 2**30
    return Work({"network_gflop": flops / 1e9}, memory_gib=2 * gib, disk_gib=gib)


def ideal_steps(examples: int, depth: int, gate_probability: float, step: float, ratio: float) -> int:
    """Steps until the slowest direction of the ideal kernel has shrunk the squared error to `ratio`."""
    slowest = smallest_eigenvalue(depth, gate_probability) / largest_eigenvalue(examples, depth, gate_probability)
    return math.ceil(math.log(ratio) / (2 * math.log1p(-step * slowest)))


STEP_GFLOP = 0.1
"""What a step of one batch of runs costs beside its products: dispatch, losses, the optimiser's own start."""
COMPILED_SHARE = 0.5
"""Compiled steps of digits take half the time of as many batched matrix products (measured): they skip zeros."""
CONVOLUTION_SLOWDOWN = 3.0
"""Small convolutions run at a third of the speed of batched matrix products (measured)."""
TOGETHER_GIB = 3.0
"""What the parameters of runs that train together may take; more are trained in turn."""
CLASSES = 10
PIXELS = {"grey": 784, "colour": 3072}
SIDE, COLOURS = 32, 3
PASSES = {"relu": 1.0, "frozen": 4.0 / 3.0, "dnpfl": 2.0}
"""Work of a step against that of a ReLU network: frozen features add a forward pass, trained ones a whole network."""


def fully_connected_weights(pixels: int, width: int, depth: int, outputs: int) -> int:
    return pixels * width + (depth - 2) * width**2 + width * outputs


def convolutional_products(channels: Sequence[int], dense_units: Sequence[int], stride: int, pooled: bool) -> float:
    """Multiply-adds of one image, those of convolutions counted as the matrix products that take as long."""
    side, below, total = SIDE, COLOURS, 0.0
    for count in channels:
        side = -(-side // stride)
        total += CONVOLUTION_SLOWDOWN * side**2 * 9 * below * count
        below = count
    below = below if pooled else below * side**2
    for units in (*dense_units, CLASSES):
        total += below * units
        below = units
    return total


def training(
    products: float, images: int, epochs: int, batch_size: int, runs: float, step_gflop: float = STEP_GFLOP
) -> float:
    """GFLOP of training one batch of `runs` runs; steps in compiled code cost nothing beside their products."""
    steps = epochs * math.ceil(images / batch_size)
    return epochs * images * runs * FLOPS_A_WEIGHT * products / 1e9 + steps * step_gflop


@work("npk_table2")
def table2(
    *,
    rows: Sequence[str],
    fc_width: int,
    fc_depth: int,
    conv_stride: int,
    conv_channels: Sequence[int],
    dense_units: Sequence[int],
    batch_size: int,
    sgd_steps: Sequence[float],
    runs: Mapping[str, int],
    epochs: Mapping[str, int],
    train_images: Mapping[str, int],
    validation_images: Mapping[str, int],
    **_: object,
) -> Work:
    """All epochs of every column; runs that reach their train accuracy earlier make it cheaper.

    A row with a validation split is trained twice.
    """
    gflop, memory = 0.0, 0.0
    for row in rows:
        kind, optimiser = row.split("_")
        family = "fc" if kind == "fc" else "conv"
        digits = [count for name, count in train_images.items() if name.startswith("mnist")]
        colour = [count for name, count in train_images.items() if not name.startswith("mnist")]
        if kind == "fc":
            weights = fully_connected_weights(PIXELS["grey"], fc_width, fc_depth, CLASSES)
            products, images = COMPILED_SHARE * weights, digits[0]
        else:
            products = convolutional_products(conv_channels, dense_units, conv_stride, kind == "gconv")
            images = colour[0]
        trials = runs[family] * (len(sgd_steps) if optimiser == "sgd" else 1)
        protocols = 1 + any(
            held and name.startswith("mnist") == (kind == "fc") for name, held in validation_images.items()
        )
        for columns, mode in ((1, "relu"), (3, "frozen"), (1, "dnpfl")):
            together = protocols * trials * columns * PASSES[mode]
            own = 0.0 if family == "fc" else protocols * STEP_GFLOP
            gflop += training(products, images, epochs[family], batch_size, together, own)
        activations = 3 * trials * batch_size * sum(conv_channels) * SIDE**2 * 8 / 2**30 if family == "conv" else 0.3
        memory = max(memory, min(TOGETHER_GIB, 24 * trials * products / 2**30) + activations)
    return Work({"network_gflop": gflop}, memory_gib=memory, disk_gib=0.5 * memory)


@work("npk_fig3a")
def stages(
    *,
    checkpoint_epochs: Sequence[int],
    conv_stride: int,
    conv_channels: Sequence[int],
    dense_units: Sequence[int],
    batch_size: int,
    runs: int,
    epochs: int,
    train_images: int,
    **_: object,
) -> Work:
    products = convolutional_products(conv_channels, dense_units, conv_stride, pooled=True)
    gflop = training(products, train_images, max(checkpoint_epochs), batch_size, runs)
    frozen = runs * (len(checkpoint_epochs) + 1)
    gflop += training(products, train_images, epochs, batch_size, frozen * PASSES["frozen"])
    activations = frozen * batch_size * sum(conv_channels) * SIDE**2 * 8 / 2**30
    return Work({"network_gflop": gflop}, memory_gib=activations, disk_gib=0.1)


@work("npk_fig3b")
def label_alignment(
    *,
    width: int,
    depth: int,
    batch_size: int,
    train_images: int,
    runs: int,
    epochs: int,
    probe_every_epochs: int,
    kernel_images: int,
    **_: object,
) -> Work:
    products = fully_connected_weights(PIXELS["grey"], width, depth, 1)
    solves = runs * (epochs // probe_every_epochs + 1) * (kernel_images**3 + 2 * depth * width * kernel_images**2) / 1e9
    learning = training(products, train_images, epochs, batch_size, runs)
    return Work({"network_gflop": learning, "dense_gflop": solves})


@work("npk_fig3c")
def value_and_feature_kernels(
    *,
    width: int,
    depth: int,
    batch_size: int,
    train_images: int,
    runs: int,
    epochs: int,
    probe_every_epochs: int,
    **settings: object,
) -> Work:
    products = fully_connected_weights(PIXELS["grey"], width, depth, CLASSES)
    examples = CLASSES * int(str(settings["kernel_images_a_class"]))
    kernel = 2 * CLASSES * products * (FLOPS_A_WEIGHT * examples + 2 * examples**2) / 1e9
    probes = runs * (epochs // probe_every_epochs + 1) * kernel
    learning = training(products, train_images, epochs, batch_size, runs * PASSES["dnpfl"])
    return Work({"network_gflop": learning + probes}, memory_gib=1.0)


@work("npk_theorem5_1")
def frozen_gates(
    *,
    depths: Sequence[int],
    widths: Sequence[int],
    images: int,
    padded_gate_width: int,
    paddings: Sequence[int],
    runs: int,
    **_: object,
) -> Work:
    """Drawing the signs outweighs the products, as thirty operations a weight; float64."""
    sizes = [*widths, *(padded_gate_width * times for times in paddings)]
    weights = sum(fully_connected_weights(PIXELS["grey"], width, depth, 1) for depth in depths for width in sizes)
    flops = 2 * runs * weights * (4 * images + 30)
    largest = fully_connected_weights(PIXELS["grey"], max(sizes), max(depths), 1)
    return Work({"dense_gflop": flops / 1e9}, memory_gib=2 * largest * BYTES["float64"] / 2**30)


@work("npk_gates")
def flipping_gates(
    *,
    modes: Sequence[str],
    width: int,
    depth: int,
    batch_size: int,
    train_images: int,
    runs: int,
    epochs: int,
    **_: object,
) -> Work:
    products = fully_connected_weights(PIXELS["grey"], width, depth, CLASSES)
    return Work(
        {
            "network_gflop": sum(
                training(products, train_images, epochs, batch_size, runs * PASSES[mode]) for mode in modes
            )
        }
    )
