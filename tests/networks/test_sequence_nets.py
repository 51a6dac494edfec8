"""Random recurrent networks and transformers: kernels against networks written down again, one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tangentbench.kernels import empirical_ntk
from tangentbench.networks import sequence
from tangentbench.networks.sequence import RandomNets
from tangentbench.networks.weight_distributions import DISTRIBUTIONS, draw_weights
from tangentbench.theory.sequences import Sequences

RNG = np.random.default_rng(0)
SENTENCES = Sequences.of([RNG.standard_normal((3, 6)), RNG.standard_normal((5, 6))])
PIXELS = Sequences.of(list(RNG.uniform(-1, 1, (3, 4, 3))))
MATRICES, VECTORS = DISTRIBUTIONS["laplace"], DISTRIBUTIONS["uniform"]
WIDTH, RUNS = 9, 2


def stream() -> Any:
    return torch.Generator().manual_seed(7)


def test_gru_is_the_cell_read_word_by_word() -> None:
    kernel = sequence.gru_state_kernel(SENTENCES, RandomNets(WIDTH, RUNS, MATRICES, VECTORS, stream()))
    generator = stream()
    weights = draw_weights(VECTORS, (RUNS, 6, 3 * WIDTH), generator) / 6**0.5
    biases = draw_weights(VECTORS, (RUNS, 1, 3 * WIDTH), generator)
    to_gates = draw_weights(MATRICES, (RUNS, WIDTH, 2 * WIDTH), generator) / WIDTH**0.5
    to_candidate = draw_weights(MATRICES, (RUNS, WIDTH, WIDTH), generator) / WIDTH**0.5

    def sigmoid(x: Any) -> Any:
        return (1 + torch.erf(x)) / 2

    for run in range(RUNS):
        states = []
        for sentence in np.split(SENTENCES.tokens, [3]):
            h = torch.zeros(WIDTH)
            for token in torch.from_numpy(sentence).float():
                z, r, c = (token @ weights[run] + biases[run, 0]).split(WIDTH)
                more_z, more_r = (h @ to_gates[run]).split(WIDTH)
                z, r = sigmoid(z + more_z), sigmoid(r + more_r)
                h = (1 - z) * h + z * torch.erf(c + (h * r) @ to_candidate[run])
                states.append(h)
        rows = torch.stack(states).double()
        torch.testing.assert_close(kernel[run], rows @ rows.T / WIDTH, rtol=1e-5, atol=1e-6)


def rnn_output(parameters: Any, sequence: Any) -> Any:
    state, total = torch.zeros(WIDTH, dtype=sequence.dtype), 0.0
    for token in sequence:
        before = token @ parameters["u"] / 3**0.5 + parameters["b"]
        state = torch.erf(before + state @ parameters["w"] / WIDTH**0.5)
        total = total + state  # type: ignore[assignment]
    return (total / len(sequence) @ parameters["v"] / WIDTH**0.5)[None]


def transformer_output(parameters: Any, sequence: Any) -> Any:
    def norm(x: Any) -> Any:
        return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, unbiased=False)

    keys = sequence @ parameters["e"] / 3**0.5
    z = norm(keys + torch.softmax(keys @ keys.T / WIDTH, -1) @ keys)
    x = norm(z + torch.relu(z @ parameters["first"] / WIDTH**0.5) @ parameters["second"] / WIDTH**0.5)
    return (x.mean(0) @ parameters["v"] / WIDTH**0.5)[None]


@pytest.mark.parametrize(
    ("kernel_of", "output", "names"),
    [
        (sequence.rnn_tangent_kernel, rnn_output, ("u", "w", "v")),
        (sequence.transformer_tangent_kernel, transformer_output, ("e", "first", "second", "v")),
    ],
    ids=["rnn", "transformer"],
)
def test_tangent_kernel_is_that_of_autograd(kernel_of: Any, output: Any, names: Any) -> None:
    kernel = kernel_of(PIXELS, RandomNets(WIDTH, RUNS, MATRICES, VECTORS, stream()))
    generator = stream()
    distributions = [VECTORS, *[MATRICES] * (len(names) - 2), VECTORS]
    inside = [(WIDTH, WIDTH)] * (len(names) - 2)
    shapes = [(RUNS, 3, WIDTH), *((RUNS, *shape) for shape in inside), (RUNS, WIDTH)]
    drawn = {
        n: draw_weights(distribution, shape, generator)
        for n, distribution, shape in zip(names, distributions, shapes, strict=True)
    }
    inputs = torch.from_numpy(PIXELS.tokens.reshape(3, 4, 3))
    for run in range(RUNS):
        parameters = {name: values[run].double() for name, values in drawn.items()}
        if "u" in parameters:
            parameters["b"] = torch.zeros(WIDTH, dtype=torch.float64)
        expected = empirical_ntk(output, parameters, inputs)
        torch.testing.assert_close(kernel[run], expected, rtol=2e-4, atol=1e-5)


def test_masked_tokens_do_not_see_what_follows() -> None:
    """The kernel of a sequence's first tokens does not change when tokens are appended; without the mask it does."""
    longer = Sequences.of([np.concatenate([SENTENCES.tokens[:3], SENTENCES.tokens[5:7]]), SENTENCES.tokens[3:]])
    first, last = np.r_[0:3, 3:8], np.r_[0:3, 5:10]

    def kernel(sequences: Any, masked: Any) -> Any:
        return sequence.transformer_state_kernel(
            sequences, RandomNets(WIDTH, 1, MATRICES, VECTORS, stream()), depth=2, masked=masked
        )[0]

    before, after = kernel(SENTENCES, True)[np.ix_(first, first)], kernel(longer, True)[np.ix_(last, last)]
    torch.testing.assert_close(before, after, rtol=1e-4, atol=1e-5)
    before, after = kernel(SENTENCES, False)[np.ix_(first, first)], kernel(longer, False)[np.ix_(last, last)]
    assert (before - after).abs().max() > 1e-2


def test_states_of_a_transformer_are_normalised() -> None:
    kernel = sequence.transformer_state_kernel(SENTENCES, RandomNets(16, 3, MATRICES, VECTORS, stream()), depth=1)
    torch.testing.assert_close(torch.diagonal(kernel, dim1=1, dim2=2), torch.ones(3, 8, dtype=torch.float64))


def test_recurrent_network_wants_one_length() -> None:
    with pytest.raises(ValueError, match="one length"):
        sequence.rnn_tangent_kernel(SENTENCES, RandomNets(4, 1, MATRICES, VECTORS, stream()))
