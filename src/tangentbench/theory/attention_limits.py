"""Infinite-width kernels of a simple transformer with Gaussian weights (thesis A.13.2), in closed form.

One head, keys = queries = values = the tokens' vectors k, scores k_i . k_j / n. With this scaling (not 1 / sqrt(n)) the
scores tend to constants, so that the softmax of the limit is a number and needs no expectation. Layers:

    z = norm(k + softmax(k k^T / n) k),   x = norm(z + W_2 relu(W_1 z + b_1) + b_2)

where norm is layer normalisation over the n coordinates. Biases are zero, as in the code that A.13 builds on.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from tangentbench.theory.gaussian_pairs import correlations, relu_pairs
from tangentbench.theory.sequences import Sequences


def attention(sequences: Sequences, scores: np.ndarray, masked: bool) -> np.ndarray:
    """softmax of the scores (S, S) within each sequence; with `masked` a token sees itself and what is before it."""
    seen = sequences.owners[:, None] == sequences.owners[None, :]
    if masked:
        seen = seen & (sequences.times[None, :] <= sequences.times[:, None])
    return np.asarray(softmax(np.where(seen, scores, -np.inf), axis=1))


def transformer_state_kernel(sequences: Sequences, depth: int, *, masked: bool = True) -> np.ndarray:
    """The limit (S, S) of x . x' / n at the last layer; the first layer's k is the embedding x E / sqrt(d)."""
    kernel = sequences.gram
    for _ in range(depth):
        mixing = np.eye(len(kernel)) + attention(sequences, kernel, masked)
        attended = correlations(mixing @ kernel @ mixing.T)
        kernel = correlations(attended + relu_pairs(attended)[0])
    return np.asarray(kernel)


def transformer_tangent_kernel(sequences: Sequences, *, masked: bool = False) -> np.ndarray:
    """The limit (M, M) of the tangent kernel of one layer with f = v . mean_t x_t / sqrt(n); E, W_1, W_2, v trained.

    Derivatives through the scores and through the two moments of a normalisation are smaller by 1 / sqrt(n) and drop
    out. D_a below is the covariance of df / da between tokens.
    """
    mixing = np.eye(len(sequences.tokens)) + attention(sequences, sequences.gram, masked)
    mixed = mixing @ sequences.gram @ mixing.T
    attended = correlations(mixed)
    active, slopes = relu_pairs(attended)
    total = attended + active
    pool = sequences.averages
    last_scale, first_scale = np.diag(total) ** -0.5, np.diag(mixed) ** -0.5

    def summed(derivatives: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        belongs = (pool > 0).astype(float)
        return np.asarray(belongs @ (derivatives * inputs) @ belongs.T)

    lengths = np.array(sequences.lengths, dtype=float)[sequences.owners]
    d_second = np.outer(last_scale / lengths, last_scale / lengths)
    d_first = d_second * slopes
    d_attended = d_first + d_second
    d_keys = mixing.T @ (np.outer(first_scale, first_scale) * d_attended) @ mixing
    readout = pool @ correlations(total) @ pool.T
    return np.asarray(readout + summed(d_second, active) + summed(d_first, attended) + summed(d_keys, sequences.gram))
