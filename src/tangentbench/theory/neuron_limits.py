"""Infinite-width kernels when biases and input weights are not Gaussian either (thesis A.13.1), by sampling neurons.

A hidden matrix of any distribution gives Gaussian pre-activations in the limit, whose covariance the kernel one token
before determines. What a neuron gets from the inputs keeps its own distribution. So one neuron of the infinite network
is a random variable that can be sampled: its own input weights and bias, and a Gaussian that grows with the sequence.
Kernels are expectations over neurons, taken at scrambled Sobol points; a distribution and the Gaussian share the
points, so that the difference of their kernels is found more precisely than either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import erf, ndtri

from tangentbench.theory.recurrent_limits import GrowingGaussian, sobol_uniforms, tangent_kernel_from
from tangentbench.theory.sequences import Sequences

Quantile = Callable[[np.ndarray], np.ndarray]
"""The quantile function of a distribution of mean 0 and variance 1, elementwise on (0, 1)."""


@dataclass(frozen=True)
class LimitShift:
    """A distribution's limit less the Gaussian one: `differences` (K, ...) of kernels, one per scrambling."""

    gaussian: np.ndarray
    differences: np.ndarray

    @property
    def kernel(self) -> np.ndarray:
        """The distribution's own limit: the Gaussian one, known precisely, plus the mean difference."""
        return np.asarray(self.gaussian + self.differences.mean(axis=0))

    @property
    def distances(self) -> np.ndarray:
        """(K,): each difference along the mean of the others, against the norm of the Gaussian kernel.

        Unlike the norm of a difference this has no bias from sampling: its mean is 0 where the limits agree.
        """
        count = len(self.differences)
        others = (self.differences.sum(axis=0) - self.differences) / (count - 1)
        lengths = np.linalg.norm(others.reshape(count, -1), axis=1)
        along = np.sum((self.differences * others).reshape(count, -1), axis=1)
        scale = lengths * np.linalg.norm(self.gaussian)
        return np.asarray(np.divide(along, scale, out=np.zeros(count), where=scale > 0))


def gru_shifts(
    sequences: Sequences,
    gaussian: np.ndarray,
    distributions: Mapping[str, Quantile],
    log2_points: int,
    scramblings: int,
) -> dict[str, LimitShift]:
    """recurrent_limits' GRU with input weights and biases of each distribution; `gaussian` is its Gaussian limit."""
    return shifts(sequences, gaussian, distributions, log2_points, scramblings, gru_neurons, gru_uniforms(sequences))


def rnn_tangent_shifts(
    sequences: Sequences,
    gaussian: np.ndarray,
    distributions: Mapping[str, Quantile],
    log2_points: int,
    scramblings: int,
) -> dict[str, LimitShift]:
    """The recurrent network's tangent kernel with input weights of each distribution.

    Of the readout only the variance counts.
    """
    dimension = sequences.dimension + len(sequences.tokens)
    return shifts(sequences, gaussian, distributions, log2_points, scramblings, rnn_neurons, dimension)


def shifts(
    sequences: Sequences,
    gaussian: np.ndarray,
    distributions: Mapping[str, Quantile],
    log2_points: int,
    scramblings: int,
    neurons: Callable[[Sequences, np.ndarray, Quantile], np.ndarray],
    dimension: int,
) -> dict[str, LimitShift]:
    differences: dict[str, list[np.ndarray]] = {name: [] for name in distributions}
    for seed in range(scramblings):
        uniforms = sobol_uniforms(dimension, log2_points, seed)
        reference = neurons(sequences, uniforms, ndtri)
        for name, quantile in distributions.items():
            differences[name].append(neurons(sequences, uniforms, quantile) - reference)
    return {name: LimitShift(gaussian, np.stack(found)) for name, found in differences.items()}


def gru_uniforms(sequences: Sequences) -> int:
    """Uniform numbers a neuron of the GRU takes: three of each input weight, bias and growing Gaussian."""
    return 3 * (sequences.dimension + 1 + len(sequences.tokens))


def gru_neurons(sequences: Sequences, uniforms: np.ndarray, quantile: Quantile) -> np.ndarray:
    """E[h h'] over the neurons (N, S) that the points (N, 3 (d + 1 + S)) stand for, shape (S, S)."""
    own, normals = np.split(uniforms, [3 * (sequences.dimension + 1)], axis=1)
    # of update gate, reset gate and candidate: what the inputs and the bias give, and what the hidden matrix gives
    parts = np.split(quantile(own), 3, axis=1)
    inputs = [part[:, 1:] @ sequences.tokens.T / sequences.dimension**0.5 + part[:, :1] for part in parts]
    update, reset, candidate = (GrowingGaussian(part) for part in np.split(ndtri(normals), 3, axis=1))
    states, damped, openings = (np.zeros((len(uniforms), len(sequences.tokens))) for _ in range(3))
    for time in range(max(sequences.lengths)):
        active = sequences.at_time(time)
        covariance = sequences.shifted(states.T @ states / len(states))
        for token in active:
            openings[:, token] = gate(inputs[0][:, token] + update.add(token, covariance[token]))
            resetting = gate(inputs[1][:, token] + reset.add(token, covariance[token]))
            if time:
                damped[:, token] = resetting * states[:, sequences.previous[token]]
        covariance = damped.T @ damped / len(states)
        for token in active:
            proposed = erf(inputs[2][:, token] + candidate.add(token, covariance[token]))
            before = states[:, sequences.previous[token]] if time else 0.0
            states[:, token] = (1 - openings[:, token]) * before + openings[:, token] * proposed
    return np.asarray(states.T @ states / len(states))


def rnn_neurons(sequences: Sequences, uniforms: np.ndarray, quantile: Quantile) -> np.ndarray:
    """The tangent kernel (M, M) from the neurons that the points (N, d + S) stand for."""
    own, normals = np.split(uniforms, [sequences.dimension], axis=1)
    inputs = quantile(own) @ sequences.tokens.T / sequences.dimension**0.5
    recurrent = GrowingGaussian(ndtri(normals))
    states, slopes = np.zeros_like(inputs), np.zeros_like(inputs)
    kernel = np.zeros((inputs.shape[1], inputs.shape[1]))
    for time in range(max(sequences.lengths)):
        covariance = sequences.shifted(kernel)
        for token in sequences.at_time(time):
            before = inputs[:, token] + recurrent.add(token, covariance[token])
            states[:, token] = erf(before)
            slopes[:, token] = 2 / np.sqrt(np.pi) * np.exp(-(before**2))
        kernel = states.T @ states / len(states)
    return tangent_kernel_from(sequences, kernel, slopes.T @ slopes / len(slopes))


def gate(values: np.ndarray) -> np.ndarray:
    return np.asarray((1 + erf(values)) / 2)
