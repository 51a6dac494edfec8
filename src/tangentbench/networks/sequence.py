"""Random GRUs, simple recurrent networks and transformers of finite width, many initialisations as one batched program.

The networks of theory/recurrent_limits.py and theory/attention_limits.py with n for infinity. R initialisations are one
batch: every matrix is read once for all sequences. Square matrices of the width (`matrices`) and all other parameters
(`vectors`) may have different distributions. Weights are drawn on the CPU and used on the process's device (device.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tangentbench.device import current
from tangentbench.networks.weight_distributions import WeightDistribution, draw_weights
from tangentbench.theory.sequences import Sequences


@dataclass(frozen=True)
class RandomNets:
    """A batch of `runs` networks of one width, whose weights are drawn as they are needed."""

    width: int
    runs: int
    matrices: WeightDistribution
    """Of the square matrices of the width."""
    vectors: WeightDistribution
    """Of all other parameters."""
    generator: torch.Generator

    def matrix(self, *shape: int) -> Tensor:
        """Standardised entries of square matrices, (runs, *shape), on the device."""
        return draw_weights(self.matrices, (self.runs, *shape), self.generator).to(current())

    def vector(self, *shape: int) -> Tensor:
        """Standardised entries of other parameters, (runs, *shape), on the device."""
        return draw_weights(self.vectors, (self.runs, *shape), self.generator).to(current())


def gru_state_kernel(sequences: Sequences, nets: RandomNets) -> Tensor:
    """h . h' / n of the states at all tokens, (R, S, S), float64.

    z, r = U h + W x + b and c = U (h * g(r)) + W x + b with weights of variance 1/n, 1/d and biases of variance 1;
    h_t = (1 - g(z)) h_(t-1) + g(z) erf(c), g = (1 + erf) / 2, h_0 = 0.
    """
    device, width = current(), nets.width
    tokens = _scaled_tokens(sequences, device)
    inputs = torch.matmul(tokens, nets.vector(sequences.dimension, 3 * width))
    inputs += nets.vector(1, 3 * width)
    to_gates = nets.matrix(width, 2 * width)
    to_candidate = nets.matrix(width, width)
    states = torch.zeros(nets.runs, len(tokens), width, device=device)
    for time in range(max(sequences.lengths)):
        active = torch.from_numpy(sequences.at_time(time)).to(device)
        given = inputs[:, active]
        if time == 0:
            update, candidate = _gate(given[..., :width]), torch.erf(given[..., 2 * width :])
            states[:, active] = update * candidate
            continue
        before = states[:, active - 1]
        gates = _gate(torch.bmm(before, to_gates).mul_(width**-0.5).add_(given[..., : 2 * width]))
        update, reset = gates[..., :width], gates[..., width:]
        proposed = torch.bmm(before * reset, to_candidate).mul_(width**-0.5).add_(given[..., 2 * width :])
        states[:, active] = (1 - update) * before + update * proposed.erf_()
    return (gram(states) / width).cpu()


def rnn_tangent_kernel(sequences: Sequences, nets: RandomNets) -> Tensor:
    """The exact tangent kernel (R, M, M) of f = v . mean_t s_t / sqrt(n) over U, W, b (zero) and v, float64.

    h_t = U x_t / sqrt(d) + W s_(t-1) / sqrt(n) + b, s = erf(h), entries of U, W, v of variance 1. A layer's weights
    contribute the product of two Gram matrices, of what goes in and of df/dh: no Jacobian is formed.
    """
    if len(set(sequences.lengths)) != 1:
        raise ValueError(f"the network reads sequences of one length, not {sequences.lengths}")
    count, length = len(sequences.lengths), sequences.lengths[0]
    device, width = current(), nets.width
    tokens = _scaled_tokens(sequences, device)
    first = nets.vector(sequences.dimension, width)
    recurrent = nets.matrix(width, width)
    last = nets.vector(1, 1, width) * width**-0.5 / length
    inputs = torch.matmul(tokens, first).view(nets.runs, count, length, width)
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
    previous = torch.from_numpy(sequences.previous).to(device)
    inside = (previous >= 0)[:, None] & (previous >= 0)[None, :]
    shifted = torch.where(inside, going_in[:, previous][:, :, previous], 0.0)
    belongs = torch.from_numpy(sequences.averages > 0).double().to(device)
    own = torch.from_numpy(sequences.gram).to(device) + 1 + shifted
    return (belongs @ (flow * own + going_in / length**2) @ belongs.T).cpu()


def transformer_state_kernel(sequences: Sequences, nets: RandomNets, *, depth: int, masked: bool = True) -> Tensor:
    """x . x' / n of the last layer's vectors at all tokens, (R, S, S), float64."""
    device, width = current(), nets.width
    tokens = _scaled_tokens(sequences, device)
    hidden = torch.matmul(tokens, nets.vector(sequences.dimension, width))
    seen = _visible(sequences, masked).to(device)
    for _ in range(depth):
        attended = _normalised(hidden + _attend(hidden, seen))
        between = torch.bmm(attended, nets.matrix(width, width)).mul_(width**-0.5)
        second = nets.matrix(width, width)
        hidden = _normalised(attended + torch.bmm(between.relu_(), second).mul_(width**-0.5))
    return (gram(hidden) / width).cpu()


def transformer_tangent_kernel(sequences: Sequences, nets: RandomNets, *, masked: bool = False) -> Tensor:
    """The exact tangent kernel (R, M, M) of one layer with f = v . mean_t x_t / sqrt(n) over E, W_1, W_2, v, float64.

    Only derivatives with respect to what the weights produce are formed; a layer's weights contribute the product of
    two Gram matrices.
    """
    device, width = current(), nets.width
    tokens = _scaled_tokens(sequences, device)
    embedding = nets.vector(sequences.dimension, width)
    first = nets.matrix(width, width)
    second = nets.matrix(width, width)
    last = nets.vector(width, 1)
    seen = _visible(sequences, masked).to(device)
    pool = torch.from_numpy(sequences.averages).float().to(device)
    keys = torch.matmul(tokens, embedding).requires_grad_()
    attended = _normalised(keys + _attend(keys, seen))
    # the products are cut off from their weights: each layer's output is a variable of its own
    between = torch.bmm(attended, first).mul(width**-0.5)
    active = between.relu()
    produced = torch.bmm(active, second).mul(width**-0.5)
    hidden = _normalised(attended + produced)
    outputs = torch.bmm(torch.matmul(pool, hidden), last).mul(width**-0.5)
    # sequences and runs do not touch each other, so the gradient of the sum holds that of each
    d_keys, d_between, d_produced = torch.autograd.grad(outputs.sum(), (keys, between, produced))
    belongs = (pool > 0).double()
    inputs = torch.from_numpy(sequences.gram).to(device)
    with torch.no_grad():
        total = gram(d_keys) * inputs
        total += gram(d_between) * gram(attended) / width
        total += gram(d_produced) * gram(active) / width
        pooled = torch.matmul(pool, hidden)
        return (belongs @ total @ belongs.T + gram(pooled) / width).cpu()


def _visible(sequences: Sequences, masked: bool) -> Tensor:
    """(S, S): whether the token of the row attends to that of the column."""
    owners, times = torch.from_numpy(sequences.owners), torch.from_numpy(sequences.times)
    seen = owners[:, None] == owners[None, :]
    return seen & (times[None, :] <= times[:, None]) if masked else seen


def _attend(hidden: Tensor, seen: Tensor) -> Tensor:
    """softmax(k k^T / n) k within the sequences."""
    scores = torch.bmm(hidden, hidden.mT) / hidden.shape[-1]
    return torch.bmm(torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1), hidden)


def _normalised(values: Tensor) -> Tensor:
    """Layer normalisation without gain and shift."""
    return F.layer_norm(values, values.shape[-1:], eps=0.0)


def _scaled_tokens(sequences: Sequences, device: torch.device) -> Tensor:
    """x / sqrt(d) of all tokens, (S, d)."""
    tokens: Tensor = torch.from_numpy(sequences.tokens).float() / sequences.dimension**0.5
    return tokens.to(device)


def _gate(values: Tensor) -> Tensor:
    return torch.erf(values).add_(1).mul_(0.5)


def gram(rows: Tensor) -> Tensor:
    """The inner products of the rows, run by run, in double precision: (R, S, n) to (R, S, S)."""
    rows = rows.double()
    return torch.bmm(rows, rows.mT)
