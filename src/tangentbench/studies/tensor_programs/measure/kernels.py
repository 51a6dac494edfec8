"""Figures A.1 to A.3: kernels of finite random networks against their limits, for five laws of the weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from tangentbench.errors import UnknownName
from tangentbench.networks import attention, recurrent
from tangentbench.networks.weight_distributions import GAUSSIAN
from tangentbench.studies.registry import Context, study
from tangentbench.studies.tensor_programs.measure.swapping import ALL, chunks, kept, laws_of, named_stream
from tangentbench.studies.tensor_programs.measure.words import sentences_as_sequences
from tangentbench.theory import attention_limits, neuron_limits, recurrent_limits
from tangentbench.theory.neuron_limits import LimitShift, Quantile
from tangentbench.theory.sequences import Sequences

BATCH_BYTES = 64 * 2**20
"""What the matrices of initialisations evaluated together take."""
PIXEL_CENTRE, PIXEL_SCALE = 0.5, 0.5
"""Pixels go from [0, 1] to [-1, 1], as in the code that A.13 builds on."""

ShiftFunction = Callable[[Sequences, np.ndarray, Mapping[str, Quantile], int, int], dict[str, LimitShift]]


@dataclass(frozen=True)
class Subject:
    """A network's kernel: at finite width, in the limit, and in the limit of a law of all parameters."""

    finite: Callable[..., Tensor]
    limit: np.ndarray
    limit_error: float
    """Relative standard error of `limit`; 0 for a closed form."""
    matrices: int
    """How many matrices of the width on both sides there are."""
    shifts: ShiftFunction | None
    """None where only second moments of the other parameters count, so that every law has the Gaussian limit."""


@dataclass(frozen=True)
class Sampling:
    """How the limits without a closed form are found: scrambled Sobol points."""

    log2_points: int
    scramblings: int


def state_kernels(architecture: str, sequences: Sequences, depth: int, sampling: Sampling) -> Subject:
    if architecture == "gru":
        estimate = recurrent_limits.gru_state_kernel(sequences, sampling.log2_points, sampling.scramblings)
        return Subject(recurrent.gru_state_kernel, estimate.mean, estimate.relative_error, 3, neuron_limits.gru_shifts)
    if architecture == "transformer":
        finite = partial(attention.transformer_state_kernel, depth=depth)
        return Subject(finite, attention_limits.transformer_state_kernel(sequences, depth), 0.0, 2 * depth, None)
    raise UnknownName("architecture", architecture, ("gru", "transformer"))


def tangent_kernels(architecture: str, sequences: Sequences) -> Subject:
    if architecture == "rnn":
        limit = recurrent_limits.rnn_tangent_kernel(sequences)
        return Subject(recurrent.rnn_tangent_kernel, limit, 0.0, 1, neuron_limits.rnn_tangent_shifts)
    if architecture == "transformer":
        limit = attention_limits.transformer_tangent_kernel(sequences)
        return Subject(attention.transformer_tangent_kernel, limit, 0.0, 2, None)
    raise UnknownName("architecture", architecture, ("rnn", "transformer"))


@study("tensor_programs_figA_1")
@study("tensor_programs_figA_2")
def output_kernels(
    context: Context,
    *,
    architectures: Sequence[str],
    laws: Sequence[str],
    swapped: str,
    truncation_sigmas: float,
    sentences: Sequence[str],
    embedding: str,
    embedding_dimension: int,
    transformer_depth: int,
    widths: Sequence[int],
    inits: int,
    limit_log2_points: int,
    limit_scramblings: int,
) -> pd.DataFrame:
    """Rows as `distances` describes, of the kernel of the states at all tokens of both sentences."""
    sequences = sentences_as_sequences(context, sentences, embedding, embedding_dimension)
    sampling = Sampling(limit_log2_points, limit_scramblings)
    subjects = {name: state_kernels(name, sequences, transformer_depth, sampling) for name in architectures}
    return distances(context, subjects, sequences, laws, swapped, truncation_sigmas, widths, inits, sampling)


@study("tensor_programs_figA_3")
def tangent_kernel_distances(
    context: Context,
    *,
    architectures: Sequence[str],
    laws: Sequence[str],
    swapped: str,
    truncation_sigmas: float,
    pixels: int,
    image_places: Sequence[int],
    widths: Sequence[int],
    inits: int,
    limit_log2_points: int,
    limit_scramblings: int,
) -> pd.DataFrame:
    """Rows as `distances` describes, of the tangent kernel on sequences of an image's first pixels."""
    images = context.dataset.x_train[list(image_places)]
    first = images.reshape(len(images), -1, images.shape[-1])[:, :pixels]
    sequences = Sequences.of([(image - PIXEL_CENTRE) / PIXEL_SCALE for image in first.astype(float)])
    subjects = {name: tangent_kernels(name, sequences) for name in architectures}
    sampling = Sampling(limit_log2_points, limit_scramblings)
    return distances(context, subjects, sequences, laws, swapped, truncation_sigmas, widths, inits, sampling)


def distances(
    context: Context,
    subjects: Mapping[str, Subject],
    sequences: Sequences,
    laws: Sequence[str],
    swapped: str,
    truncation_sigmas: float,
    widths: Sequence[int],
    inits: int,
    sampling: Sampling,
) -> pd.DataFrame:
    """Rows for each architecture and law, a `seed` being an initialisation:

    `distance`: of the finite network's kernel from the Gaussian limit, relative, in Frobenius norm, at each width;
    `own distance`: of the same kernel from the limit of its own law, where that is another one;
    `limit shift`: how far that limit lies from the Gaussian one, a seed being a scrambling of the points (0 where the
    law cannot matter); `limit error`: the relative standard error of the Gaussian limit.
    """
    frames = []
    for architecture, subject in subjects.items():
        frames.append(
            named(architecture, GAUSSIAN, pd.DataFrame({"quantity": ["limit error"], "value": [subject.limit_error]}))
        )
        limits = own_limits(subject, sequences, laws, swapped, truncation_sigmas, sampling)
        for law in laws:
            own = limits.get(law)
            shifts = own.distances if own is not None else np.zeros(sampling.scramblings)
            frames.append(named(architecture, law, rows("limit shift", shifts)))
            for width in tqdm(widths, desc=f"{architecture}, {law}", disable=None):
                kernels = finite_kernels(
                    context, architecture, subject, sequences, law, swapped, truncation_sigmas, width, inits
                )
                measured = rows("distance", relative_distance(kernels, subject.limit))
                if own is not None:
                    measured = pd.concat([measured, rows("own distance", relative_distance(kernels, own.kernel))])
                frames.append(named(architecture, law, measured.assign(width=width)))
    return pd.concat(frames, ignore_index=True).astype({"seed": "Int64", "width": "Int64"})


def own_limits(
    subject: Subject,
    sequences: Sequences,
    laws: Sequence[str],
    swapped: str,
    truncation_sigmas: float,
    sampling: Sampling,
) -> dict[str, LimitShift]:
    """The limits of the laws of all parameters; empty where all of them are the Gaussian one."""
    if subject.shifts is None or swapped != ALL:
        return {}
    quantiles = {law: laws_of(law, swapped, truncation_sigmas)[1].quantile for law in laws if law != GAUSSIAN}
    return subject.shifts(sequences, subject.limit, quantiles, sampling.log2_points, sampling.scramblings)


def finite_kernels(
    context: Context,
    architecture: str,
    subject: Subject,
    sequences: Sequences,
    law: str,
    swapped: str,
    truncation_sigmas: float,
    width: int,
    inits: int,
) -> np.ndarray:
    """The kernels (inits, ., .) of as many networks, a batch of them at a time."""
    matrices, vectors = laws_of(law, swapped, truncation_sigmas)

    def make() -> dict[str, Tensor]:
        parts = []
        for part in chunks(inits, 4.0 * subject.matrices * width**2, BATCH_BYTES):
            generator = named_stream(f"{architecture} {law} {swapped}", context.seed, width, part.start)
            parts.append(subject.finite(sequences, width, len(part), matrices, vectors, generator))
        return {"kernels": torch.cat(parts)}

    name = f"{architecture}-{law}-{width}"
    key = repr((context.seed, swapped, truncation_sigmas, inits, sequences.lengths, float(sequences.gram.sum())))
    return np.asarray(kept(context.work, name, key, make)["kernels"].numpy())


def relative_distance(kernels: np.ndarray, limit: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(kernels - limit, axis=(1, 2)) / np.linalg.norm(limit))


def rows(quantity: str, values: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"quantity": quantity, "seed": np.arange(len(values)), "value": values})


def named(architecture: str, law: str, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(architecture=architecture, law=law)
