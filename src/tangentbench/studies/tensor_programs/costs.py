"""Work of the study of non-Gaussian weights: drawing the weights on the CPU, and products with few rows."""

from __future__ import annotations

from collections.abc import Sequence

from tangentbench.studies.work import Work, work

DRAW_GFLOP = {
    "gaussian": 0.22,
    "gaussian_again": 0.22,
    "truncated_gaussian": 0.75,
    "uniform": 0.19,
    "laplace": 1.6,
    "exponential": 1.25,
    "quintcauchy": 2.5,
    "cubecauchy": 2.5,
}
"""Matrix-product GFLOP that take as long as 10^6 draws of a law (3 to 40 ns a draw)."""
MILLION = 1e6
SENTENCE_STEPS, PIXEL_PASSES = 9, 8
"""How often each matrix is read for the two sentences, and for the pixels forward and backward."""
READ_GFLOP = 0.07
"""A matrix entry's part in a product with a few rows, for 10^6 of them: reading it outweighs the arithmetic."""
MATRICES = {"gru": 3, "transformer": 4, "rnn": 1}
LIMIT_GFLOP = {"gru": 4.0, "rnn": 0.15, "transformer": 0.0}
"""Of one scrambling with 2^13 points, for each law."""
BATCH_GIB = 0.3


def draws(laws: Sequence[str], entries: float) -> float:
    """GFLOP of as many draws of each law; a law without a measured price counts as the dearest."""
    dearest = max(DRAW_GFLOP.values())
    return sum(DRAW_GFLOP.get(law, dearest) for law in laws) * entries / MILLION


@work("tensor_programs_figA_1")
@work("tensor_programs_figA_2")
@work("tensor_programs_figA_3")
def kernels(
    *,
    architectures: Sequence[str],
    laws: Sequence[str],
    widths: Sequence[int],
    inits: int,
    limit_log2_points: int,
    limit_scramblings: int,
    pixels: int | None = None,
    **_: object,
) -> Work:
    reads = SENTENCE_STEPS if pixels is None else PIXEL_PASSES
    drawing, reading = 0.0, 0.0
    for architecture in architectures:
        entries = float(inits * MATRICES[architecture] * sum(width**2 for width in widths))
        drawing += draws(laws, entries)
        reading += len(laws) * entries / MILLION * READ_GFLOP * reads
        points = 2.0 ** (limit_log2_points - 13)
        drawing += LIMIT_GFLOP[architecture] * points * limit_scramblings * len(laws)
    largest = max(MATRICES[architecture] for architecture in architectures) * 4 * max(widths) ** 2 / 2**30
    return Work(units_of(drawing, reading), memory_gib=BATCH_GIB + 3 * largest, disk_gib=0.01)


def units_of(drawing: float, computing: float) -> dict[str, float]:
    """GFLOP of what stays on the CPU, and of what the networks do on any device."""
    return {"dense_gflop": drawing, "network_gflop": computing}


STEP_GFLOP_A_UNIT = 2.6e-6
"""A step of one hidden unit with ten inputs and ten classes: 10 microseconds for 256 of them."""
ENTRY_FLOPS = 14.0
"""Of a step for an entry of the matrix between two hidden layers, beside its products with the batch's rows."""
FLOPS_A_WEIGHT = 6
CLASSES = 10
SMALL_IMAGE, LARGE_IMAGE = 48, 3072


@work("tensor_programs_figA_4")
def one_hidden_layer(
    *,
    laws: Sequence[str],
    widths: Sequence[int],
    inits: int,
    limit_width: int,
    limit_runs: int,
    epochs_shown: Sequence[int],
    **_: object,
) -> Work:
    units = float(inits * sum(widths) + limit_runs * limit_width)
    everyone = ["gaussian", *laws]
    drawing = draws(everyone, units * (SMALL_IMAGE + CLASSES))
    training = len(everyone) * units * max(epochs_shown) * STEP_GFLOP_A_UNIT
    gib = 4 * limit_width * (SMALL_IMAGE + 6 * CLASSES) / 2**30
    return Work(units_of(drawing, training), memory_gib=BATCH_GIB + 2 * gib, disk_gib=0.01)


@work("tensor_programs_figA_5")
def from_the_same_trainings(**_: object) -> Work:
    return Work()


@work("tensor_programs_figA_6")
@work("tensor_programs_figA_7")
def two_hidden_layers(
    *,
    laws: Sequence[str],
    swapped: Sequence[str],
    widths: Sequence[int],
    inits: int,
    images: int,
    batch_size_max: int,
    epochs_shown: Sequence[int],
    **_: object,
) -> Work:
    """Ten images are those of four by four pixels, more of them whole ones."""
    ensembles = 2 + (len(laws) - 1) * len(swapped)
    inputs = CLASSES if images <= SMALL_IMAGE else LARGE_IMAGE
    batch = min(images, batch_size_max)
    steps = max(epochs_shown) * -(-images // batch)
    drawing, training = 0.0, 0.0
    for width in widths:
        weights = width * (inputs + CLASSES + width)
        a_step = FLOPS_A_WEIGHT * batch * weights + ENTRY_FLOPS * width**2 + 1e9 * STEP_GFLOP_A_UNIT * width
        training += ensembles * inits * steps * a_step / 1e9
        drawing += len(swapped) * draws(laws, float(inits * width * (width + inputs)))
    largest = 8 * max(widths) * (max(widths) + inputs) / 2**30
    return Work(units_of(drawing, training), memory_gib=BATCH_GIB + 2 * largest, disk_gib=0.01)
