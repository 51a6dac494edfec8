"""Random GRUs and simple recurrent networks of finite width, many initialisations as one batched program.

The networks of theory/recurrent_limits.py, with n for infinity. R initialisations are one batch: at each time every
matrix is read once for all sequences. Parameters that are matrices of the width on both sides (`matrices`) and all
others (`vectors`) may have different laws. Weights are drawn on the CPU and read on the process's device (device.py).
"""

from __future__ import annotations

import torch
from torch import Tensor

from tangentbench.device import current
from tangentbench.networks.weight_distributions import WeightLaw, draw_weights
from tangentbench.theory.sequences import Sequences


def gru_state_kernel(
    sequences: Sequences, width: int, runs: int, matrices: WeightLaw, vectors: WeightLaw, generator: torch.Generator
) -> Tensor:
    """h . h' / n of the states at all tokens, (R, S, S), float64.

    z, r = U h + W x + b and c = U (h * g(r)) + W x + b with weights of variance 1/n, 1/d and biases of variance 1;
    h_t = (1 - g(z)) h_(t-1) + g(z) erf(c), g = (1 + erf) / 2, h_0 = 0.
    """
    place = current()
    tokens = scaled_tokens(sequences, place)
    inputs = torch.matmul(tokens, drawn(vectors, (runs, sequences.dimension, 3 * width), generator, place))
    inputs += drawn(vectors, (runs, 1, 3 * width), generator, place)
    to_gates = drawn(matrices, (runs, width, 2 * width), generator, place)
    to_candidate = drawn(matrices, (runs, width, width), generator, place)
    states = torch.zeros(runs, len(tokens), width, device=place)
    for time in range(max(sequences.lengths)):
        active = torch.from_numpy(sequences.at_time(time)).to(place)
        given = inputs[:, active]
        if time == 0:
            update, candidate = gate(given[..., :width]), torch.erf(given[..., 2 * width :])
            states[:, active] = update * candidate
            continue
        before = states[:, active - 1]
        gates = gate(torch.bmm(before, to_gates).mul_(width**-0.5).add_(given[..., : 2 * width]))
        update, reset = gates[..., :width], gates[..., width:]
        proposed = torch.bmm(before * reset, to_candidate).mul_(width**-0.5).add_(given[..., 2 * width :])
        states[:, active] = (1 - update) * before + update * proposed.erf_()
    return (gram(states) / width).cpu()


def scaled_tokens(sequences: Sequences, place: torch.device) -> Tensor:
    """x / sqrt(d) of all tokens, (S, d)."""
    tokens: Tensor = torch.from_numpy(sequences.tokens).float() / sequences.dimension**0.5
    return tokens.to(place)


def drawn(law: WeightLaw, shape: tuple[int, ...], generator: torch.Generator, place: torch.device) -> Tensor:
    return draw_weights(law, shape, generator).to(place)


def gate(values: Tensor) -> Tensor:
    return torch.erf(values).add_(1).mul_(0.5)


def rnn_tangent_kernel(
    sequences: Sequences, width: int, runs: int, matrices: WeightLaw, vectors: WeightLaw, generator: torch.Generator
) -> Tensor:
    """The exact tangent kernel (R, M, M) of f = v . mean_t s_t / sqrt(n) over U, W, b (zero) and v, float64.

    h_t = U x_t / sqrt(d) + W s_(t-1) / sqrt(n) + b, s = erf(h), entries of U, W, v of variance 1. A layer's weights
    contribute the product of two Gram matrices, of what goes in and of df/dh: no Jacobian is formed.
    """
    if len(set(sequences.lengths)) != 1:
        raise ValueError(f"the network reads sequences of one length, not {sequences.lengths}")
    count, length = len(sequences.lengths), sequences.lengths[0]
    place = current()
    tokens = scaled_tokens(sequences, place)
    first = drawn(vectors, (runs, sequences.dimension, width), generator, place)
    recurrent = drawn(matrices, (runs, width, width), generator, place)
    last = drawn(vectors, (runs, 1, 1, width), generator, place) * width**-0.5 / length
    inputs = torch.matmul(tokens, first).view(runs, count, length, width)
    states, slopes = torch.empty_like(inputs), torch.empty_like(inputs)
    for time in range(length):
        before = inputs[:, :, time]
        if time:
            before = before + torch.bmm(states[:, :, time - 1], recurrent).mul_(width**-0.5)
        states[:, :, time] = torch.erf(before)
        slopes[:, :, time] = torch.exp(-(before**2)) * (2 / torch.pi**0.5)
    derivatives = torch.empty_like(inputs)
    derivatives[:, :, -1] = last[:, :, 0] * slopes[:, :, -1]
    for time in reversed(range(length - 1)):
        arriving = torch.bmm(derivatives[:, :, time + 1], recurrent.mT).mul_(width**-0.5)
        derivatives[:, :, time] = (last[:, :, 0] + arriving) * slopes[:, :, time]
    flow = gram(derivatives.flatten(1, 2))
    going_in = gram(states.flatten(1, 2)) / width
    previous = torch.from_numpy(sequences.previous).to(place)
    inside = (previous >= 0)[:, None] & (previous >= 0)[None, :]
    shifted = torch.where(inside, going_in[:, previous][:, :, previous], 0.0)
    belongs = torch.from_numpy(sequences.averages > 0).double().to(place)
    own = torch.from_numpy(sequences.gram).to(place) + 1 + shifted
    return (belongs @ (flow * own + going_in / length**2) @ belongs.T).cpu()


def gram(rows: Tensor) -> Tensor:
    """The inner products of the rows, run by run, in double precision: (R, S, n) to (R, S, S)."""
    rows = rows.double()
    return torch.bmm(rows, rows.mT)
