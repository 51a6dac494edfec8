"""The tangent kernel of real, wide torch networks approaches the exact one like 1 / sqrt(width)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from images import images
from torch.nn.functional import conv2d

from tangentbench.kernels import cntk, ntk

WIDTHS = (16, 256)
DRAWS = 12


def parameters(width: int, channels: int, pooling: str, area: int, generator: torch.Generator) -> list[torch.Tensor]:
    shapes = [(width, channels, 3, 3), (width, width, 3, 3), (width,) if pooling == "gap" else (width, area)]
    return [torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]


def output(weights: list[torch.Tensor], image: torch.Tensor, pooling: str) -> torch.Tensor:
    """The network of section 4 with two convolutions."""
    x = image[None]
    for weight in weights[:-1]:
        x = torch.relu(conv2d(x, weight, padding=1)) * np.sqrt(2 / (len(weight) * 9))
    features = x[0].mean((1, 2)) if pooling == "gap" else x[0].flatten(1)
    return (features * weights[-1]).sum()


def empirical(weights: list[torch.Tensor], batch: torch.Tensor, pooling: str, trained: slice) -> np.ndarray:
    rows = []
    for image in batch:
        gradients = torch.autograd.grad(output(weights, image, pooling), weights[trained])
        rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    features = torch.stack(rows)
    return (features @ features.T).numpy()


@pytest.mark.parametrize(("pooling", "trained"), [("gap", slice(1, 2)), ("flatten", slice(None))])
def test_error_of_wide_convolutional_networks_falls_with_the_root_of_the_width(pooling: Any, trained: Any) -> None:
    batch = images(3, 6, 6, 3)
    exact = cntk(batch, depth=3, pooling=pooling)
    tensors = torch.as_tensor(batch.transpose(0, 3, 1, 2))
    errors = []
    for width in WIDTHS:
        generator = torch.Generator().manual_seed(0)
        squares = []
        for _ in range(DRAWS):
            weights = parameters(width, 3, pooling, 36, generator)
            squares.append(np.mean((empirical(weights, tensors, pooling, trained) - exact) ** 2))
        errors.append(np.sqrt(np.mean(squares)) / np.abs(exact).mean())
    fall = errors[0] / errors[1]
    assert errors[1] < 0.2
    assert 0.5 * np.sqrt(WIDTHS[1] / WIDTHS[0]) < fall < 2 * np.sqrt(WIDTHS[1] / WIDTHS[0])


def test_error_of_wide_dense_networks_falls_with_the_root_of_the_width() -> None:
    batch = images(4, 1, 1, 5).reshape(4, 5)
    exact = ntk(batch, depth=3, activation="erf", weight_std=1.2, bias_std=0.3)
    x = torch.as_tensor(batch)
    errors = []
    for width in (32, 512):
        generator = torch.Generator().manual_seed(1)
        squares = []
        for _ in range(DRAWS):
            sizes = [(5, width), (width, width), (width, 1)]
            weights = [torch.randn(*s, generator=generator, dtype=torch.float64, requires_grad=True) for s in sizes]
            biases = [torch.randn(s[1], generator=generator, dtype=torch.float64, requires_grad=True) for s in sizes]
            rows = []
            for row in x:
                h = row
                for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
                    h = torch.erf(h) if layer else h
                    h = 1.2 / np.sqrt(len(weight)) * h @ weight + 0.3 * bias
                gradients = torch.autograd.grad(h.sum(), [*weights, *biases])
                rows.append(torch.cat([g.flatten() for g in gradients]))
            features = torch.stack(rows)
            squares.append(np.mean(((features @ features.T).numpy() - exact) ** 2))
        errors.append(np.sqrt(np.mean(squares)) / np.abs(exact).mean())
    assert 2 < errors[0] / errors[1] < 8
