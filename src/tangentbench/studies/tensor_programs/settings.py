"""The settings of the study of non-Gaussian weights."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from tangentbench.studies.settings import Count, Positive, Settings, settings_of

Distribution = Literal[
    "gaussian", "truncated_gaussian", "uniform", "laplace", "exponential", "cubecauchy", "quintcauchy"
]
Swapped = Literal["matrices", "all"]
"""Which parameters are drawn from the distribution: the square hidden matrices only, or all."""
Quantity = Literal["train_loss", "readout_norm"]
PositiveReal = Annotated[float, Meta(gt=0)]
PARTS = 4
"""Distances come from all networks, halves and quarters of them."""


class LimitSampling(Settings, frozen=True):
    """How limits without a closed form are found: by scrambled Sobol points."""

    log2_points: Count
    scramblings: Positive


class Kernels(Settings, frozen=True):
    """Kernels of random networks, for each architecture, distribution and width."""

    distributions: tuple[Distribution, ...]
    swapped: Swapped
    truncation_sigmas: PositiveReal
    widths: tuple[Positive, ...]
    inits: Positive
    limit: LimitSampling


@settings_of("tensor_programs_figA_1", "tensor_programs_figA_2")
class StateKernels(Kernels, frozen=True):
    """Kernels of the states on sentences."""

    architectures: tuple[Literal["gru", "transformer"], ...]
    sentences: tuple[str, ...]
    embedding: Literal["random", "glove"]
    embedding_dimension: Positive
    transformer_depth: Positive


@settings_of("tensor_programs_figA_3")
class TangentKernels(Kernels, frozen=True):
    """Tangent kernels on sequences of pixels."""

    architectures: tuple[Literal["rnn", "transformer"], ...]
    pixels: Positive
    image_indices: tuple[Count, ...]


class Training(Settings, frozen=True):
    """How the networks of an ensemble are trained."""

    parametrisation: Literal["maximal_update", "ntk"]
    activation: Literal["relu"]
    learning_rate: PositiveReal
    momentum: Annotated[float, Meta(ge=0, lt=1)]
    batch_size_max: Positive
    epochs_shown: Annotated[tuple[Positive, ...], Meta(min_length=1)]


class Ensembles(Settings, frozen=True):
    """Trained networks that differ in their random start, for each distribution and width."""

    distributions: tuple[Distribution | Literal["gaussian_again"], ...]
    quantities: tuple[Quantity, ...]
    images: Positive
    widths: tuple[Positive, ...]
    inits: Annotated[int, Meta(ge=PARTS)]
    training: Training


class WideNetworks(Settings, frozen=True):
    """Networks so wide that they stand for the limit."""

    width: Positive
    runs: Positive


@settings_of("tensor_programs_figA_4")
class OneHiddenLayer(Ensembles, frozen=True):
    limit: WideNetworks


@settings_of("tensor_programs_figA_5")
class ReadoutNorms(Settings, frozen=True):
    quantities: tuple[Quantity, ...]


@settings_of("tensor_programs_figA_6", "tensor_programs_figA_7")
class TwoHiddenLayers(Ensembles, frozen=True):
    swapped: tuple[Swapped, ...]
