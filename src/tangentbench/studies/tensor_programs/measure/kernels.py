"""Figures A.1 to A.3: kernels of finite random networks against their limits, for five distributions of the weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from tangentbench.networks import sequence
from tangentbench.networks.sequence import RandomNets
from tangentbench.networks.sequence_shapes import square_matrices
from tangentbench.networks.weight_distributions import GAUSSIAN
from tangentbench.studies.registry import Context, study
from tangentbench.studies.tensor_programs.measure.swapping import ALL, chunks, distributions_of, kept, named_stream
from tangentbench.studies.tensor_programs.measure.words import sentences_as_sequences
from tangentbench.studies.tensor_programs.settings import Kernels, StateKernels, TangentKernels
from tangentbench.theory import attention_limits, neuron_limits, recurrent_limits
from tangentbench.theory.neuron_limits import LimitShift, Quantile
from tangentbench.theory.sequences import Sequences

_BATCH_BYTES = 64 * 2**20
"""What the matrices of initialisations evaluated together take."""
_PIXEL_CENTRE, _PIXEL_SCALE = 0.5, 0.5
"""Pixels go from [0, 1] to [-1, 1], as in the code that A.13 builds on."""

ShiftFunction = Callable[[Sequences, np.ndarray, Mapping[str, Quantile], int, int], dict[str, LimitShift]]


@dataclass(frozen=True)
class Subject:
    """A network's kernel: at finite width, in the limit, and in the limits of other distributions of all parameters."""

    architecture: str
    finite: Callable[..., Tensor]
    limit: np.ndarray
    limit_error: float = 0.0
    """Relative standard error of `limit`; 0 for a closed form."""
    depth: int = 1
    shifts: ShiftFunction | None = None
    """None where only second moments of the other parameters count: every distribution has the Gaussian limit."""


def _state_kernel(architecture: str, sequences: Sequences, settings: StateKernels) -> Subject:
    if architecture == "gru":
        estimate = recurrent_limits.gru_state_kernel(sequences, settings.limit.log2_points, settings.limit.scramblings)
        return Subject(
            architecture,
            sequence.gru_state_kernel,
            estimate.mean,
            estimate.relative_error,
            shifts=neuron_limits.gru_shifts,
        )
    depth = settings.transformer_depth
    finite = partial(sequence.transformer_state_kernel, depth=depth)
    limit = attention_limits.transformer_state_kernel(sequences, depth)
    return Subject(architecture, finite, limit, depth=depth)


def _tangent_kernel(architecture: str, sequences: Sequences) -> Subject:
    if architecture == "rnn":
        limit = recurrent_limits.rnn_tangent_kernel(sequences)
        return Subject(architecture, sequence.rnn_tangent_kernel, limit, shifts=neuron_limits.rnn_tangent_shifts)
    limit = attention_limits.transformer_tangent_kernel(sequences)
    return Subject(architecture, sequence.transformer_tangent_kernel, limit)


@study("tensor_programs_figA_1")
@study("tensor_programs_figA_2")
def output_kernels(context: Context, settings: StateKernels) -> pd.DataFrame:
    """Rows as `_distances` describes, of the kernel of the states at all tokens of both sentences."""
    sequences = sentences_as_sequences(context, settings)
    subjects = [_state_kernel(name, sequences, settings) for name in settings.architectures]
    return _distances(context, subjects, sequences, settings)


@study("tensor_programs_figA_3")
def tangent_kernel_distances(context: Context, settings: TangentKernels) -> pd.DataFrame:
    """Rows as `_distances` describes, of the tangent kernel on sequences of an image's first pixels."""
    images = context.dataset.x_train[list(settings.image_indices)]
    first = images.reshape(len(images), -1, images.shape[-1])[:, : settings.pixels]
    sequences = Sequences.of([(image - _PIXEL_CENTRE) / _PIXEL_SCALE for image in first.astype(float)])
    subjects = [_tangent_kernel(name, sequences) for name in settings.architectures]
    return _distances(context, subjects, sequences, settings)


def _distances(context: Context, subjects: Sequence[Subject], sequences: Sequences, settings: Kernels) -> pd.DataFrame:
    """Rows for each architecture and distribution (column `law`), a `seed` being an initialisation:

    `distance`: of the finite network's kernel from the Gaussian limit, relative, in Frobenius norm, at each width;
    `own distance`: of the same kernel from the limit of its own distribution, where that is another one;
    `limit shift`: how far that limit is from the Gaussian one, a seed being a scrambling of the points (0 where the
    distribution cannot matter); `limit error`: the relative standard error of the Gaussian limit.
    """
    frames = []
    for subject in subjects:
        error = pd.DataFrame({"quantity": ["limit error"], "value": [subject.limit_error]})
        frames.append(_named(subject, GAUSSIAN, error))
        limits = _own_limits(subject, sequences, settings)
        for distribution in settings.distributions:
            own = limits.get(distribution)
            shifts = own.distances if own is not None else np.zeros(settings.limit.scramblings)
            frames.append(_named(subject, distribution, _rows("limit shift", shifts)))
            for width in tqdm(settings.widths, desc=f"{subject.architecture}, {distribution}", disable=None):
                kernels = _finite_kernels(context, subject, sequences, settings, distribution, width)
                measured = _rows("distance", relative_distance(kernels, subject.limit))
                if own is not None:
                    measured = pd.concat([measured, _rows("own distance", relative_distance(kernels, own.kernel))])
                frames.append(_named(subject, distribution, measured.assign(width=width)))
    return pd.concat(frames, ignore_index=True).astype({"seed": "Int64", "width": "Int64"})


def _own_limits(subject: Subject, sequences: Sequences, settings: Kernels) -> dict[str, LimitShift]:
    """The limits of the distributions of all parameters; empty where all of them are the Gaussian one."""
    if subject.shifts is None or settings.swapped != ALL:
        return {}
    quantiles: dict[str, Quantile] = {
        name: distributions_of(name, settings.swapped, settings.truncation_sigmas)[1].quantile
        for name in settings.distributions
        if name != GAUSSIAN
    }
    limit = settings.limit
    return subject.shifts(sequences, subject.limit, quantiles, limit.log2_points, limit.scramblings)


def _finite_kernels(
    context: Context, subject: Subject, sequences: Sequences, settings: Kernels, distribution: str, width: int
) -> np.ndarray:
    """The kernels (inits, ., .) of as many networks, a batch of them at a time."""
    matrices, vectors = distributions_of(distribution, settings.swapped, settings.truncation_sigmas)
    stream_name = f"{subject.architecture} {distribution} {settings.swapped}"
    size = 4.0 * square_matrices(subject.architecture, subject.depth) * width**2

    def make() -> dict[str, Tensor]:
        parts = []
        for part in chunks(settings.inits, size, _BATCH_BYTES):
            generator = named_stream(stream_name, context.seed, width, part.start)
            nets = RandomNets(width, len(part), matrices, vectors, generator)
            parts.append(subject.finite(sequences, nets))
        return {"kernels": torch.cat(parts)}

    name = f"{subject.architecture}-{distribution}-{width}"
    return np.asarray(kept(context.work, name, make)["kernels"].numpy())


def relative_distance(kernels: np.ndarray, limit: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(kernels - limit, axis=(1, 2)) / np.linalg.norm(limit))


def _rows(quantity: str, values: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"quantity": quantity, "seed": np.arange(len(values)), "value": values})


def _named(subject: Subject, distribution: str, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(architecture=subject.architecture, law=distribution)
