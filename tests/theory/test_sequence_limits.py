"""Infinite-width kernels of recurrent networks and transformers, each found in a second way."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import erf, ndtri

from tangentbench.networks import sequence
from tangentbench.networks.weight_distributions import DISTRIBUTIONS
from tangentbench.theory.attention_limits import transformer_state_kernel, transformer_tangent_kernel
from tangentbench.theory.gaussian_pairs import correlations, erf_pairs, gate_pairs, relu_pairs
from tangentbench.theory.neuron_limits import gru_neurons, gru_shifts, gru_uniforms, rnn_neurons, rnn_tangent_shifts
from tangentbench.theory.recurrent_limits import (
    GrowingGaussian,
    SampledKernel,
    gru_state_kernel,
    rnn_state_kernels,
    rnn_tangent_kernel,
    sobol_uniforms,
)
from tangentbench.theory.sequences import Sequences

RNG = np.random.default_rng(3)
WORDS = RNG.standard_normal((5, 8))
# the sentences begin with the same word, so that their first states are one variable
SENTENCES = Sequences.of([WORDS[[0, 1, 2]], WORDS[[0, 3, 4, 1]]])
PIXELS = Sequences.of(list(RNG.uniform(-1, 1, (2, 5, 3))))
GAUSSIAN = DISTRIBUTIONS["gaussian"]


def test_sequences_know_their_places() -> None:
    assert SENTENCES.times.tolist() == [0, 1, 2, 0, 1, 2, 3]
    assert SENTENCES.previous.tolist() == [-1, 0, 1, -1, 3, 4, 5]
    assert SENTENCES.at_time(3).tolist() == [6]
    matrix = np.arange(49.0).reshape(7, 7)
    shifted = SENTENCES.shifted(matrix)
    assert shifted[1, 4] == matrix[0, 3]
    assert not shifted[0].any()
    assert not shifted[:, 3].any()
    np.testing.assert_allclose(SENTENCES.averages @ np.ones(7), [1, 1])
    with pytest.raises(ValueError, match="lengths"):
        Sequences(np.zeros((3, 2)), (1, 1))


@pytest.mark.parametrize("pairs", [erf_pairs, relu_pairs], ids=["erf", "relu"])
def test_pairs_are_expectations(pairs: Any) -> None:
    covariance = np.array([[0.8, 0.3], [0.3, 1.5]])
    samples = ndtri(sobol_uniforms(2, 15, 0)) @ np.linalg.cholesky(covariance).T
    functions = {
        erf_pairs: (erf(samples), 2 / np.sqrt(np.pi) * np.exp(-(samples**2))),
        relu_pairs: (np.maximum(samples, 0), (samples > 0).astype(float)),
    }[pairs]
    for found, values in zip(pairs(covariance), functions, strict=True):
        np.testing.assert_allclose(found, values.T @ values / len(values), atol=2e-3)


def test_growing_gaussian_has_the_covariance_also_where_it_is_singular() -> None:
    factor = np.array([[1.0, 0, 0], [1.0, 0, 0], [0.5, 0.7, 0], [0.2, -0.3, 0.9]])
    covariance = factor @ factor.T
    growing = GrowingGaussian(ndtri(sobol_uniforms(4, 14, 0)))
    samples = np.zeros((2**14, 4))
    for place in (2, 0, 1, 3):
        samples[:, place] = growing.add(place, covariance[place])
    np.testing.assert_allclose(samples.T @ samples / len(samples), covariance, atol=5e-3)
    np.testing.assert_allclose(samples[:, 0], samples[:, 1], atol=1e-6)


def test_rnn_kernel_by_the_backward_recursion() -> None:
    """Yang, Tensor Programs II: covariances of the derivatives from the last time to the first."""
    states, slopes = rnn_state_kernels(PIXELS)
    length, blocks = 5, []
    own = PIXELS.gram + 1 + PIXELS.shifted(states)
    for one in range(2):
        for other in range(2):
            part = np.s_[one * length : (one + 1) * length, other * length : (other + 1) * length]
            flow = np.ones((length, length))
            for time in reversed(range(length - 1)):
                for past in reversed(range(length - 1)):
                    flow[time, past] = 1 + slopes[part][time + 1, past + 1] * flow[time + 1, past + 1]
            blocks.append((states[part] + slopes[part] * flow * own[part]).sum() / length**2)
    np.testing.assert_allclose(rnn_tangent_kernel(PIXELS), np.reshape(blocks, (2, 2)), rtol=1e-12)


def test_gru_on_first_tokens_has_a_closed_form() -> None:
    """h = g(z) erf(c) with independent z and c of covariance x . x' / d + 1."""
    tokens = Sequences(WORDS, (1,) * 5)
    closed = gate_pairs(tokens.gram + 1) * erf_pairs(tokens.gram + 1)[0]
    estimate = gru_state_kernel(tokens, log2_points=12, scramblings=4)
    np.testing.assert_allclose(estimate.mean, closed, rtol=2e-3)
    assert estimate.relative_error < 1e-3


def test_gru_limit_by_sampling_whole_neurons() -> None:
    estimate = gru_state_kernel(SENTENCES, log2_points=11, scramblings=4)
    assert estimate.relative_error < 2e-3
    points = (sobol_uniforms(gru_uniforms(SENTENCES), 13, seed) for seed in range(8))
    sampled = SampledKernel(np.stack([gru_neurons(SENTENCES, uniforms, ndtri) for uniforms in points]))
    assert sampled.relative_error < 0.01
    apart = np.linalg.norm(sampled.mean - estimate.mean) / np.linalg.norm(estimate.mean)
    assert apart < 2.5 * sampled.relative_error


def test_rnn_limit_by_sampling_whole_neurons() -> None:
    sampled = rnn_neurons(PIXELS, sobol_uniforms(13, 14, 1), ndtri)
    np.testing.assert_allclose(sampled, rnn_tangent_kernel(PIXELS), rtol=3e-3)


def relative(kernels: torch.Tensor, limit: np.ndarray) -> float:
    """Root mean square over the runs."""
    squares = ((kernels.numpy() - limit) ** 2).sum(axis=(1, 2)) / np.sum(limit**2)
    return float(np.sqrt(squares.mean()))


CASES = {
    "gru": (sequence.gru_state_kernel, SENTENCES, lambda tokens: gru_state_kernel(tokens, 12, 4).mean),
    "transformer": (
        partial(sequence.transformer_state_kernel, depth=2),
        SENTENCES,
        lambda tokens: transformer_state_kernel(tokens, 2),
    ),
    "rnn tangent": (sequence.rnn_tangent_kernel, PIXELS, rnn_tangent_kernel),
    "transformer tangent": (sequence.transformer_tangent_kernel, PIXELS, transformer_tangent_kernel),
}


@pytest.mark.parametrize("case", CASES)
def test_finite_networks_approach_the_limit_without_a_floor(case: Any) -> None:
    """Sixteen times the width, a quarter of the distance; the mean over runs is closer still."""
    finite, sequences, limit_of = CASES[case]
    limit = limit_of(sequences)  # type: ignore[no-untyped-call]
    generator = torch.Generator().manual_seed(0)

    def kernels(width: Any, runs: Any) -> Any:
        return finite(sequences, sequence.RandomNets(width, runs, GAUSSIAN, GAUSSIAN, generator))  # type: ignore[operator]

    narrow, wide = kernels(48, 200), kernels(768, 16)
    ratio = relative(narrow, limit) / relative(wide, limit)
    assert 2.7 < ratio < 6.0
    middle = kernels(192, 150).mean(dim=0).numpy()
    assert np.linalg.norm(middle - limit) < 0.03 * np.linalg.norm(limit)


def test_kernel_of_one_token_needs_no_attention() -> None:
    """Alone, a token attends to itself: the correlation of two such tokens passes one feed-forward layer."""
    single = Sequences(WORDS[:2], (1, 1))
    attended = correlations(single.gram)
    expected = correlations(attended + relu_pairs(attended)[0])
    np.testing.assert_allclose(transformer_state_kernel(single, 1), expected, rtol=1e-12)


def test_distributions_of_all_parameters_have_their_own_limit() -> None:
    gaussian = rnn_tangent_kernel(PIXELS)
    distributions = {name: DISTRIBUTIONS[name].quantile for name in ("gaussian", "uniform", "cubecauchy")}
    found = rnn_tangent_shifts(PIXELS, gaussian, distributions, 12, 4)
    assert not found["gaussian"].distances.any()
    for name in ("uniform", "cubecauchy"):
        distances = found[name].distances
        assert distances.mean() > 20 * distances.std(ddof=1) / 2
    distribution = DISTRIBUTIONS["uniform"]
    nets = sequence.RandomNets(512, 150, GAUSSIAN, distribution, torch.Generator().manual_seed(1))
    wide = sequence.rnn_tangent_kernel(PIXELS, nets).mean(dim=0)
    to_own = np.linalg.norm(wide.numpy() - found["uniform"].kernel)
    to_gaussian = np.linalg.norm(wide.numpy() - gaussian)
    assert to_own < 0.4 * to_gaussian


def test_gru_with_uniform_biases_has_its_own_limit() -> None:
    estimate = gru_state_kernel(SENTENCES, 10, 4).mean
    found = gru_shifts(SENTENCES, estimate, {"uniform": DISTRIBUTIONS["uniform"].quantile}, 12, 4)["uniform"]
    assert found.distances.mean() > 10 * found.distances.std(ddof=1) / 2
    distribution = DISTRIBUTIONS["uniform"]
    nets = sequence.RandomNets(512, 60, GAUSSIAN, distribution, torch.Generator().manual_seed(2))
    wide = sequence.gru_state_kernel(SENTENCES, nets).mean(dim=0)
    assert np.linalg.norm(wide.numpy() - found.kernel) < 0.5 * np.linalg.norm(wide.numpy() - estimate)
