"""Figure 5.1: what draws the hidden representations together and what drives them apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from tangentbench.datasets import Dataset
from tangentbench.datasets.selection import classes, some_of_each
from tangentbench.networks.penalised import Member, PenalisedNets, Rotated, draw, with_bias
from tangentbench.studies.registry import Context, study
from tangentbench.theory.clusters import Rays, fit_rays, rays_needed, silhouettes
from tangentbench.theory.representation_cost import Array, TrainedWeights, penalty_of_representations
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.engines.full_batch import Stage, train_in_stages

RECORDS = 10
"""The fall of the loss over the last tenth says how far from its end the training is."""
Row = tuple[int, str, float]
"""Layer (0: the whole network), quantity, value."""


@study("regularised_fig5_1")
def attraction_and_repulsion(
    context: Context,
    *,
    digits: Sequence[int],
    images: int,
    hidden_layers: int,
    width: int,
    loss: str,
    optimiser: str,
    steps: int,
    penalty: float,
    step: float,
    bias_amount: float,
    tikhonov: float,
    rays: int,
    ray_degrees: float,
    ray_share: float,
    runs: int,
) -> pd.DataFrame:
    """Points, arrows and numbers of every run (`seed`) and hidden `layer`.

    Rows with a `view` are what is drawn: `x`, `y` of an image (view `images`, `label` its digit), of a neuron
    (`neurons`, `label` its ray) or of a ray's end (`rays`) in the plane of the two main directions, with the forces
    `attraction_x`, ..., `repulsion_y` there. Rows with a `quantity` hold a `value`; those of the whole network have
    layer 0.
    """
    layers = range(1, hidden_layers + 1)
    frames = []
    for run in range(runs):
        pictures, labels = some_digits(context.dataset, digits, images, (context.seed, run))
        inputs = Rotated.of(with_bias(pictures, bias_amount))
        sizes = [pictures.shape[1], *[width] * hidden_layers, len(digits)]
        first, *upper = draw(sizes, torch.float64, context.seed, run, width)
        first, outside = inputs.first_layer(first)
        nets = PenalisedNets(
            [Member(width, penalty, run)], [[first, *upper]], inputs.inputs, labels, bias=bias_amount, loss=loss
        )
        untrained = snapshot(nets)
        identity = (context.seed, run, width, hidden_layers, penalty, step, steps, images, list(digits), bias_amount)
        history = train_in_stages(
            nets,
            [Stage(optimiser, step, steps)],
            label=f"run {run}, {images} images, width {width}",
            records=RECORDS,
            checkpoint=checkpoint_in(context.work, f"run{run}", *identity),
        )
        trained = snapshot(nets)
        # outside the span of the images descent only shrinks the first layer
        outside *= (1 - 2 * step * penalty) ** (2 * steps)
        rows = network_rows(nets, trained, history["loss"].to_numpy(), penalty, outside)
        for layer in layers:
            z = trained.representations[layer - 1]
            found = fit_rays(z, rays)
            rows += ray_rows(layer, z, found, ray_degrees, ray_share)
            before, after = (cluster_rows(layer, one, rays, ray_degrees, labels) for one in (untrained, trained))
            rows += [(layer, f"{name}, untrained", value) for _, name, value in before]
            rows += [(layer, f"{name}, trained", value) for _, name, value in after]
            rows.append((layer, "share brought to the rays", after[0][2] - before[0][2]))
            rows += balance_rows(trained, layer, penalty, tikhonov)
            frames.append(drawn(trained, layer, tikhonov, found, [digits[label] for label in labels]).assign(seed=run))
        frames.append(pd.DataFrame(rows, columns=["layer", "quantity", "value"]).assign(seed=run))
    return pd.concat(frames, ignore_index=True)


def some_digits(dataset: Dataset, digits: Sequence[int], count: int, key: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """`count` training images of these digits, equally many of each, as vectors (N, d), and the digits' places (N,)."""
    kept = classes(dataset, [str(digit) for digit in digits])
    places = some_of_each(kept.y_train, len(digits), count // len(digits), np.random.default_rng(key), "training")
    pictures = torch.from_numpy(kept.x_train[places]).flatten(1).double()
    return pictures, torch.from_numpy(kept.y_train[places])


def snapshot(nets: PenalisedNets) -> TrainedWeights:
    """The only network of `nets`, as the theory takes it."""
    outputs = nets.outputs(nets.inputs).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(nets.loss(outputs, nets.labels[None]).sum(), outputs)
    weights = [layer.numpy().copy() for layer in nets.weights_of(0)]
    return TrainedWeights(weights, nets.inputs.T.numpy(), nets.bias, gradient[0].T.numpy())


def network_rows(
    nets: PenalisedNets, trained: TrainedWeights, losses: Array, penalty: float, outside: float
) -> list[Row]:
    """The loss both ways (Proposition 5.3.1), and how far from a stationary point training ended."""
    cost = float(nets.costs(nets.inputs, nets.labels)[0].detach())
    norms = sum(float(np.sum(layer**2)) for layer in trained.weights) + outside
    in_weights = cost + penalty * norms
    in_representations = cost + penalty * penalty_of_representations(
        trained.inputs, trained.representations, trained.bias
    )
    gradient = np.sqrt(sum(float(np.sum(part**2)) for part in trained.loss_gradients(penalty)))
    return [
        (0, "cost", cost),
        (0, "loss", in_weights),
        (0, "loss in representations", in_representations),
        (0, "loss apart", abs(in_weights - in_representations) / in_weights),
        (0, "gradient norm", float(gradient)),
        (0, "fall in the last tenth", float(losses[-2] / losses[-1] - 1)),
    ]


def ray_rows(layer: int, z: Array, rays: Rays, degrees: float, share: float) -> list[Row]:
    """How many rays the neurons need, and what those found look like in the plane drawn."""
    plane = main_directions(z)
    flat = fit_rays(z @ plane, len(rays.directions))
    return [
        (layer, "rays needed", float(rays_needed(z, degrees, share))),
        (layer, "share near the rays, as drawn", flat.share_within(degrees)),
        (layer, "neurons alive", float((rays.nearest >= 0).sum())),
    ]


def cluster_rows(layer: int, network: TrainedWeights, rays: int, degrees: float, labels: Tensor) -> list[Row]:
    z = network.representations[layer - 1]
    return [
        (layer, "share near the rays", fit_rays(z, rays).share_within(degrees)),
        (layer, "silhouette", float(silhouettes(z.T, labels.numpy()).mean())),
    ]


def balance_rows(trained: TrainedWeights, layer: int, penalty: float, tikhonov: float) -> list[Row]:
    """How far the forces cancel: along each neuron's own ray, in all directions, and with the constraint's reaction."""
    z = trained.representations[layer - 1]
    drawn_in, pushed_out = trained.forces(layer, tikhonov)
    held = trained.reaction(layer, penalty, tikhonov)
    along = np.abs(np.sum((drawn_in + pushed_out) * z, axis=1)).sum() / np.abs(np.sum(drawn_in * z, axis=1)).sum()
    size = np.linalg.norm(drawn_in)
    return [
        (layer, "imbalance along the rays", float(along)),
        (layer, "imbalance", float(np.linalg.norm(drawn_in + pushed_out) / size)),
        (layer, "imbalance with the reaction", float(np.linalg.norm(drawn_in + pushed_out + held) / size)),
        (layer, "cosine of the forces, images", cosine_in_plane(drawn_in.T, pushed_out.T, main_directions(z.T))),
        (layer, "cosine of the forces, neurons", cosine_in_plane(drawn_in, pushed_out, main_directions(z))),
    ]


def cosine_in_plane(first: Array, second: Array, plane: Array) -> float:
    """Between two sets of arrows (n, d) as drawn in `plane` (d, 2): -1 where they are opposite throughout."""
    left, right = first @ plane, second @ plane
    return float(np.sum(left * right) / np.linalg.norm(left) / np.linalg.norm(right))


def main_directions(points: Array) -> Array:
    """The two main directions (d, 2) of the points (n, d) about their mean, each pointing to its longer side."""
    centred = points - points.mean(axis=0)
    plane = np.linalg.svd(centred, full_matrices=False)[2][:2].T
    signs = np.sign(np.sum((points @ plane) ** 3, axis=0))
    return np.asarray(plane * np.where(signs == 0, 1.0, signs))


def drawn(trained: TrainedWeights, layer: int, tikhonov: float, rays: Rays, digits: Sequence[int]) -> pd.DataFrame:
    """What the two panels of a layer show. Points keep the origin: rays begin there."""
    z = trained.representations[layer - 1]
    drawn_in, pushed_out = trained.forces(layer, tikhonov)
    by_image, by_neuron = main_directions(z.T), main_directions(z)
    images = panel("images", z.T @ by_image, np.asarray(digits), drawn_in.T @ by_image, pushed_out.T @ by_image)
    neurons = panel("neurons", z @ by_neuron, rays.nearest, drawn_in @ by_neuron, pushed_out @ by_neuron)
    ends = rays.directions @ by_neuron
    zeros = np.zeros_like(ends)
    lines = panel("rays", ends, np.arange(len(ends)), zeros, zeros)
    return pd.concat([images, neurons, lines], ignore_index=True).assign(layer=layer)


def panel(view: str, points: Array, labels: NDArray[np.int64], drawn_in: Array, pushed_out: Array) -> pd.DataFrame:
    """Forces act against the derivatives of the loss."""
    arrows = {
        "attraction_x": -drawn_in[:, 0],
        "attraction_y": -drawn_in[:, 1],
        "repulsion_x": -pushed_out[:, 0],
        "repulsion_y": -pushed_out[:, 1],
    }
    return pd.DataFrame({"view": view, "label": labels, "x": points[:, 0], "y": points[:, 1], **arrows})
