"""Theorem 5.1, Theorem D.1 and Corollary C.1: the tangent kernel with frozen gates against the path kernel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from tangentbench.kernels.path import neural_path_kernel, value_tangent_kernel
from tangentbench.networks.initialisation import random_signs, stream
from tangentbench.studies.npk.measure.images import some_images
from tangentbench.studies.npk.settings import FrozenGates
from tangentbench.studies.registry import Context, study

_GATE_PART, _VALUE_PART = 0, 1
"""The random streams of the gates and of the value weights."""


@study("npk_theorem5_1")
def frozen_gates(context: Context, settings: FrozenGates) -> pd.DataFrame:
    """Rows for each depth and width, and for each depth and padding m of a narrow gate network.

    Quantities, a `seed` being one draw of the value weights at the same gates: `relative error` of K from
    d sigma^(2(d-1)) H in Frobenius norm, `projection` <K, H> / <d sigma^(2(d-1)) H, H>, whose mean is one; and without
    seeds `entry variance`, the mean over entries of the variance over draws, with the kernel's mean diagonal at d.
    """
    per_class = max(1, settings.images // len(context.dataset.classes))
    pictures, _ = some_images(context.dataset, per_class, context.seed)
    inputs = torch.nn.functional.normalize(pictures[: settings.images].flatten(1).double(), dim=1)
    cases = [("width", width, width, 1) for width in settings.widths]
    cases += [("padding", times, settings.padded_gate_width, times) for times in settings.paddings]
    frames = []
    for depth in settings.depths:
        for varied, value, gate_width, times in tqdm(cases, desc=f"depth {depth}", disable=None):
            layers = _relu_gates(inputs, gate_width, depth, context.seed)
            padded = [torch.cat([layer] * times, dim=-1) for layer in layers]
            sigma = math.sqrt(settings.sigma_squared_times_width / (gate_width * times))
            frame = _compare(inputs, padded, sigma, settings.runs, context.seed)
            frames.append(frame.assign(depth=depth, varied=varied, width=gate_width * times, axis=value))
    return pd.concat(frames, ignore_index=True).astype({"seed": "Int64"})


def _relu_gates(inputs: Tensor, width: int, depth: int, seed: int) -> list[Tensor]:
    """The gates (n, w) of a random ReLU network's hidden layers."""
    generator = stream(seed, _GATE_PART, width, depth)
    hidden, gates = inputs, []
    for _ in range(depth - 1):
        scale = math.sqrt(2.0 / width)
        hidden = hidden @ (scale * torch.randn(hidden.shape[1], width, generator=generator, dtype=torch.float64))
        gates.append((hidden > 0).double())
        hidden = torch.relu(hidden)
    return gates


def _compare(inputs: Tensor, gates: Sequence[Tensor], sigma: float, runs: int, seed: int) -> pd.DataFrame:
    """Draw the value weights `runs` times and compare the tangent kernel with its limit."""
    depth = len(gates) + 1
    limit = depth * sigma ** (2 * (depth - 1)) * neural_path_kernel(inputs, gates)
    kernels = torch.stack([_drawn_kernel(inputs, gates, sigma, seed, run) for run in range(runs)])
    errors = (kernels - limit).flatten(1).norm(dim=1) / limit.norm()
    projections = (kernels * limit).flatten(1).sum(dim=1) / limit.square().sum()
    variance = kernels.var(dim=0).mean()
    return pd.concat(
        [
            pd.DataFrame({"quantity": "relative error", "seed": range(runs), "value": errors.numpy()}),
            pd.DataFrame({"quantity": "projection", "seed": range(runs), "value": projections.numpy()}),
            pd.DataFrame({"quantity": ["entry variance"], "value": [float(variance)]}),
        ]
    )


def _drawn_kernel(inputs: Tensor, gates: Sequence[Tensor], sigma: float, seed: int, run: int) -> Tensor:
    width, depth = gates[0].shape[1], len(gates) + 1
    generator = stream(seed, _VALUE_PART, width, depth, run)
    sizes = [inputs.shape[1], *[width] * (depth - 1), 1]
    shapes = list(itertools.pairwise(sizes))
    weights = [sigma * random_signs(shape, generator).double() for shape in shapes]
    return value_tangent_kernel(inputs, weights, gates)
