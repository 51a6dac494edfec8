"""Random transformers of finite width, many initialisations as one batched program.

The networks of theory/attention_limits.py, with n for infinity: R initialisations are one batch. The feed-forward
matrices (`matrices`) and the embedding and readout (`vectors`) may have different laws. Weights are drawn on the CPU
and read on the process's device (device.py).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tangentbench.device import current
from tangentbench.networks.recurrent import drawn, gram, scaled_tokens
from tangentbench.networks.weight_distributions import WeightLaw
from tangentbench.theory.sequences import Sequences


def transformer_state_kernel(
    sequences: Sequences,
    width: int,
    runs: int,
    matrices: WeightLaw,
    vectors: WeightLaw,
    generator: torch.Generator,
    *,
    depth: int,
    masked: bool = True,
) -> Tensor:
    """x . x' / n of the last layer's vectors at all tokens, (R, S, S), float64."""
    place = current()
    tokens = scaled_tokens(sequences, place)
    hidden = torch.matmul(tokens, drawn(vectors, (runs, sequences.dimension, width), generator, place))
    seen = visible(sequences, masked).to(place)
    for _ in range(depth):
        attended = normalised(hidden + attend(hidden, seen))
        between = torch.bmm(attended, drawn(matrices, (runs, width, width), generator, place)).mul_(width**-0.5)
        second = drawn(matrices, (runs, width, width), generator, place)
        hidden = normalised(attended + torch.bmm(between.relu_(), second).mul_(width**-0.5))
    return (gram(hidden) / width).cpu()


def transformer_tangent_kernel(
    sequences: Sequences,
    width: int,
    runs: int,
    matrices: WeightLaw,
    vectors: WeightLaw,
    generator: torch.Generator,
    *,
    masked: bool = False,
) -> Tensor:
    """The exact tangent kernel (R, M, M) of one layer with f = v . mean_t x_t / sqrt(n) over E, W_1, W_2, v, float64.

    Only derivatives with respect to what the weights produce are formed; a layer's weights contribute the product of
    two Gram matrices.
    """
    place = current()
    tokens = scaled_tokens(sequences, place)
    embedding = drawn(vectors, (runs, sequences.dimension, width), generator, place)
    first = drawn(matrices, (runs, width, width), generator, place)
    second = drawn(matrices, (runs, width, width), generator, place)
    last = drawn(vectors, (runs, width, 1), generator, place)
    seen = visible(sequences, masked).to(place)
    pool = torch.from_numpy(sequences.averages).float().to(place)
    keys = torch.matmul(tokens, embedding).requires_grad_()
    attended = normalised(keys + attend(keys, seen))
    # the products are cut off from their weights: each layer's output is a variable of its own
    between = torch.bmm(attended, first).mul(width**-0.5)
    active = between.relu()
    produced = torch.bmm(active, second).mul(width**-0.5)
    hidden = normalised(attended + produced)
    outputs = torch.bmm(torch.matmul(pool, hidden), last).mul(width**-0.5)
    # sequences and runs do not touch each other, so the gradient of the sum holds that of each
    d_keys, d_between, d_produced = torch.autograd.grad(outputs.sum(), (keys, between, produced))
    belongs = (pool > 0).double()
    inputs = torch.from_numpy(sequences.gram).to(place)
    with torch.no_grad():
        total = gram(d_keys) * inputs
        total += gram(d_between) * gram(attended) / width
        total += gram(d_produced) * gram(active) / width
        pooled = torch.matmul(pool, hidden)
        return (belongs @ total @ belongs.T + gram(pooled) / width).cpu()


def visible(sequences: Sequences, masked: bool) -> Tensor:
    """(S, S): whether the token of the row attends to that of the column."""
    owners, times = torch.from_numpy(sequences.owners), torch.from_numpy(sequences.times)
    seen = owners[:, None] == owners[None, :]
    return seen & (times[None, :] <= times[:, None]) if masked else seen


def attend(hidden: Tensor, seen: Tensor) -> Tensor:
    """softmax(k k^T / n) k within the sequences."""
    scores = torch.bmm(hidden, hidden.mT) / hidden.shape[-1]
    return torch.bmm(torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1), hidden)


def normalised(values: Tensor) -> Tensor:
    """Layer normalisation without gain and shift."""
    return F.layer_norm(values, values.shape[-1:], eps=0.0)
