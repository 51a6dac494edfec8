"""Infinite-width kernels of a simple recurrent network and of a GRU with Gaussian weights (thesis A.13.2).

The networks are those of the code that A.13 builds on (Yang, Tensor Programs I and II): activation erf, gate
(1 + erf) / 2. All recursions run over the tokens of all sequences together; S tokens give (S, S) matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erf, ndtri
from scipy.stats import qmc

from tangentbench.theory.gaussian_pairs import erf_pairs, gate_pairs
from tangentbench.theory.sequences import Sequences

NEGLIGIBLE = 1e-10
"""A Gaussian whose variance is this small against its whole, given those before it, is a function of them."""
GATE_BIAS_VARIANCE = 1.0


@dataclass(frozen=True)
class SampledKernel:
    """A kernel found by sampling: `draws` (K, S, S), one for each independent scrambling of the points."""

    draws: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return np.asarray(self.draws.mean(axis=0))

    @property
    def relative_error(self) -> float:
        """The standard error of the mean against the kernel, both in Frobenius norm."""
        spread = self.draws.std(axis=0, ddof=1) / np.sqrt(len(self.draws))
        return float(np.linalg.norm(spread) / np.linalg.norm(self.mean))


def rnn_state_kernels(sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
    """C_s = E[s s'] and E[erf'(h) erf'(h')], each (S, S), of h_t = U x_t / sqrt(d) + W s_(t-1) / sqrt(n), s = erf(h).

    C_h(i, j) = x_i . x_j / d + C_s(i - 1, j - 1), C_s the dual of C_h. Each round settles one more time.
    """
    states, slopes = erf_pairs(sequences.gram)
    for _ in range(max(sequences.lengths) - 1):
        states, slopes = erf_pairs(sequences.gram + sequences.shifted(states))
    return states, slopes


def rnn_tangent_kernel(sequences: Sequences) -> np.ndarray:
    """The limit (M, M) of the tangent kernel of f = v . mean_t s_t / sqrt(n); U, W, b (zero at first), v are trained.

    Forward: Theta_h(i, j) = x_i . x_j / d + 1 + C_s(i-1, j-1) + E[erf'(h_(i-1)) erf'(h_(j-1))] Theta_h(i-1, j-1).
    """
    return tangent_kernel_from(sequences, *rnn_state_kernels(sequences))


def tangent_kernel_from(sequences: Sequences, states: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """The kernel above from C_s and E[erf' erf'], however these were found."""
    own = sequences.gram + 1 + sequences.shifted(states)
    tangents = own
    for _ in range(max(sequences.lengths) - 1):
        tangents = own + sequences.shifted(slopes * tangents)
    pool = sequences.averages
    return np.asarray(pool @ (states + slopes * tangents) @ pool.T)


class GrowingGaussian:
    """Samples of a Gaussian vector whose covariance becomes known one coordinate after the other."""

    def __init__(self, normals: np.ndarray) -> None:
        """`normals` (N, S): independent standard normals, a column for each coordinate to come."""
        self.normals = normals
        self.factor = np.zeros((normals.shape[1], normals.shape[1]))
        self.order: list[int] = []

    def add(self, index: int, covariances: np.ndarray) -> np.ndarray:
        """The samples (N,) of coordinate `index`; `covariances` (S,) with itself and with those that went before."""
        row = np.zeros(len(self.factor))
        for rank, other in enumerate(self.order):
            pivot = self.factor[other, rank]
            if pivot > 0:
                row[rank] = (covariances[other] - row[:rank] @ self.factor[other, :rank]) / pivot
        left = covariances[index] - row @ row
        if left > NEGLIGIBLE * covariances[index]:
            row[len(self.order)] = np.sqrt(left)
        self.factor[index] = row
        self.order.append(index)
        return np.asarray(self.normals @ row)


def sobol_uniforms(dimension: int, log2_points: int, seed: int) -> np.ndarray:
    """Scrambled Sobol points (2^m, dimension), strictly inside the unit cube."""
    points = qmc.Sobol(dimension, scramble=True, seed=seed).random_base2(log2_points)
    return np.clip(points, 2.0**-53, 1 - 2.0**-53)


def gru_state_kernel(sequences: Sequences, log2_points: int = 14, scramblings: int = 8) -> SampledKernel:
    """The limit (S, S) of h . h' / n for the states of a GRU with unit variances of all weights and biases.

    With z, r, c the pre-activations of update gate, reset gate and candidate, and g the gate,
        h_t = (1 - g(z_t)) h_(t-1) + g(z_t) erf(c_t),
        E[z z'] = E[r r'] = x . x' / d + 1 + E[h h'] one token before,
        E[c c'] = x . x' / d + 1 + E[h h'] E[g(r) g(r')], and z, r, c are independent.
    h is a sum of erf(c_a) with weights that are products of gates of z: pairs of erf and of g(r) have closed forms, and
    only the weights' products need sampling, by randomised quasi-Monte Carlo over the S variables z.
    """
    draws = [gru_draw(sequences, log2_points, seed) for seed in range(scramblings)]
    return SampledKernel(np.stack(draws))


def gru_draw(sequences: Sequences, log2_points: int, seed: int) -> np.ndarray:
    size = len(sequences.tokens)
    given = sequences.gram + GATE_BIAS_VARIANCE
    updates = GrowingGaussian(ndtri(sobol_uniforms(size, log2_points, seed)))
    kernel = np.zeros((size, size))
    weights = np.zeros((size, len(updates.normals), size))
    known: list[int] = []
    for time in range(max(sequences.lengths)):
        active = sequences.at_time(time)
        gates = given + sequences.shifted(kernel)
        candidates = given + sequences.shifted(kernel) * gate_pairs(gates)
        proposals, _ = erf_pairs(candidates)
        for token in active:
            opening = (1 + erf(updates.add(token, gates[token]))) / 2
            before = sequences.previous[token]
            if before >= 0:
                weights[token] = (1 - opening)[:, None] * weights[before]
            weights[token][:, token] = opening
            known.append(token)
        for token in active:
            mixed = weights[token] @ proposals
            for other in known:
                kernel[token, other] = kernel[other, token] = np.mean(np.sum(mixed * weights[other], axis=1))
    return kernel
