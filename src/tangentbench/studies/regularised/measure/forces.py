"""Figure 5.1: the forces that attract and repel the hidden representations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from tangentbench.datasets import Dataset
from tangentbench.datasets.selection import classes, some_of_each
from tangentbench.networks.mlp_shape import MlpShape
from tangentbench.networks.penalised import Member, PenalisedNets, Rotated, draw, with_bias
from tangentbench.studies.registry import Context, study
from tangentbench.studies.regularised.settings import Forces, RaySettings
from tangentbench.theory.clusters import Rays, fit_rays, rays_needed, silhouettes
from tangentbench.theory.representation_cost import Array, TrainedWeights, penalty_of_representations
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.engines.full_batch import Stage, train_in_stages

_RECORDS = 10
"""The fall of the loss over the last tenth says how far from its end the training is."""
Row = tuple[int, str, float]
"""Layer (0: the whole network), quantity, value."""


@study("regularised_fig5_1")
def attraction_and_repulsion(context: Context, settings: Forces) -> pd.DataFrame:
    """Points, arrows and numbers of every run (`seed`) and hidden `layer`.

    Rows with a `view` are what is drawn: `x`, `y` of an image (view `images`, `label` its digit), of a neuron
    (`neurons`, `label` its ray) or of a ray's end (`rays`) in the plane of the two main directions, with the forces
    `attraction_x`, ..., `repulsion_y` there. Rows with a `quantity` hold a `value`; those of the whole network have
    layer 0.
    """
    frames = [frame for run in range(settings.runs) for frame in _run_frames(context, settings, run)]
    return pd.concat(frames, ignore_index=True)


def _run_frames(context: Context, settings: Forces, run: int) -> list[pd.DataFrame]:
    """The points of each layer and, last, the numbers of one run."""
    nets, outside = _untrained(context, settings, run)
    before = _snapshot(nets)
    losses = _train(context, settings, run, nets)
    after = _snapshot(nets)
    # outside the span of the images descent only shrinks the first layer
    outside *= (1 - 2 * settings.learning_rate * settings.penalty) ** (2 * settings.steps)
    digits = [settings.digits[label] for label in nets.labels]
    rows = _network_rows(nets, after, losses, settings.penalty, outside)
    frames = []
    for layer in range(1, settings.hidden_layers + 1):
        found = fit_rays(after.representations[layer - 1], settings.rays.count)
        rows += _ray_rows(layer, after.representations[layer - 1], found, settings.rays)
        rows += _learnt_rows(layer, before, after, nets.labels, settings.rays)
        rows += _balance_rows(after, layer, settings.penalty, settings.tikhonov)
        frames.append(_drawn(after, layer, settings.tikhonov, found, digits))
    frames.append(pd.DataFrame(rows, columns=["layer", "quantity", "value"]))
    return [frame.assign(seed=run) for frame in frames]


def _untrained(context: Context, settings: Forces, run: int) -> tuple[PenalisedNets, float]:
    """The network in the coordinates of its images' span, and the squared norm of its first layer outside them."""
    pictures, labels = _some_digits(context.dataset, settings, (context.seed, run))
    inputs = Rotated.of(with_bias(pictures, settings.bias))
    shape = MlpShape(settings.hidden_layers + 1, settings.width, pictures.shape[1], len(settings.digits))
    first, *upper = draw(shape, torch.float64, context.seed, run, settings.width)
    first, outside = inputs.first_layer(first)
    member = Member(settings.width, settings.penalty, run)
    nets = PenalisedNets([member], [[first, *upper]], inputs.inputs, labels, bias=settings.bias, loss=settings.loss)
    return nets, outside


def _train(context: Context, settings: Forces, run: int, nets: PenalisedNets) -> Array:
    """Train `nets` in place; the penalised losses on the way."""
    history = train_in_stages(
        nets,
        [Stage(settings.optimiser, settings.learning_rate, settings.steps)],
        label=f"run {run}, {settings.images} images, width {settings.width}",
        records=_RECORDS,
        checkpoint=checkpoint_in(context.work, f"run{run}"),
    )
    return history["loss"].to_numpy()


def _some_digits(dataset: Dataset, settings: Forces, key: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Training images of the digits, equally many of each, as vectors (N, d), and each one's index in `digits` (N,)."""
    kept = classes(dataset, [str(digit) for digit in settings.digits])
    each = settings.images // len(settings.digits)
    chosen = some_of_each(kept.y_train, len(settings.digits), each, np.random.default_rng(key), "training")
    pictures = torch.from_numpy(kept.x_train[chosen]).flatten(1).double()
    return pictures, torch.from_numpy(kept.y_train[chosen])


def _snapshot(nets: PenalisedNets) -> TrainedWeights:
    """The only network of `nets`, as the theory takes it."""
    outputs = nets.outputs(nets.inputs).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(nets.loss(outputs, nets.labels[None]).sum(), outputs)
    weights = [layer.numpy().copy() for layer in nets.weights_of(0)]
    return TrainedWeights(weights, nets.inputs.T.numpy(), nets.bias, gradient[0].T.numpy())


def _network_rows(
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


def _ray_rows(layer: int, z: Array, rays: Rays, wanted: RaySettings) -> list[Row]:
    """How many rays the neurons need, and what those found look like in the plane drawn."""
    plane = _main_directions(z)
    flat = fit_rays(z @ plane, len(rays.directions))
    return [
        (layer, "rays needed", float(rays_needed(z, wanted.degrees, wanted.share))),
        (layer, "share near the rays, as drawn", flat.share_within(wanted.degrees)),
        (layer, "neurons alive", float((rays.nearest >= 0).sum())),
    ]


def _learnt_rows(
    layer: int, before: TrainedWeights, after: TrainedWeights, labels: Tensor, rays: RaySettings
) -> list[Row]:
    """How the representations cluster before and after training."""
    rows: list[Row] = []
    shares = []
    for network, when in ((before, "untrained"), (after, "trained")):
        z = network.representations[layer - 1]
        shares.append(fit_rays(z, rays.count).share_within(rays.degrees))
        rows.append((layer, f"share near the rays, {when}", shares[-1]))
        rows.append((layer, f"silhouette, {when}", float(silhouettes(z.T, labels.numpy()).mean())))
    return [*rows, (layer, "share brought to the rays", shares[1] - shares[0])]


def _balance_rows(trained: TrainedWeights, layer: int, penalty: float, tikhonov: float) -> list[Row]:
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
        (layer, "cosine of the forces, images", _cosine_in_plane(drawn_in.T, pushed_out.T, _main_directions(z.T))),
        (layer, "cosine of the forces, neurons", _cosine_in_plane(drawn_in, pushed_out, _main_directions(z))),
    ]


def _cosine_in_plane(first: Array, second: Array, plane: Array) -> float:
    """Between two sets of arrows (n, d) as drawn in `plane` (d, 2): -1 where they are opposite throughout."""
    left, right = first @ plane, second @ plane
    return float(np.sum(left * right) / np.linalg.norm(left) / np.linalg.norm(right))


def _main_directions(points: Array) -> Array:
    """The two main directions (d, 2) of the points (n, d) about their mean, each pointing to its longer side."""
    centred = points - points.mean(axis=0)
    plane = np.linalg.svd(centred, full_matrices=False)[2][:2].T
    signs = np.sign(np.sum((points @ plane) ** 3, axis=0))
    return np.asarray(plane * np.where(signs == 0, 1.0, signs))


def _drawn(trained: TrainedWeights, layer: int, tikhonov: float, rays: Rays, digits: Sequence[int]) -> pd.DataFrame:
    """What the two panels of a layer show. Points keep the origin: rays begin there."""
    z = trained.representations[layer - 1]
    drawn_in, pushed_out = trained.forces(layer, tikhonov)
    by_image, by_neuron = _main_directions(z.T), _main_directions(z)
    images = _panel("images", z.T @ by_image, np.asarray(digits), drawn_in.T @ by_image, pushed_out.T @ by_image)
    neurons = _panel("neurons", z @ by_neuron, rays.nearest, drawn_in @ by_neuron, pushed_out @ by_neuron)
    ends = rays.directions @ by_neuron
    zeros = np.zeros_like(ends)
    lines = _panel("rays", ends, np.arange(len(ends)), zeros, zeros)
    return pd.concat([images, neurons, lines], ignore_index=True).assign(layer=layer)


def _panel(view: str, points: Array, labels: NDArray[np.int64], drawn_in: Array, pushed_out: Array) -> pd.DataFrame:
    """Forces act against the derivatives of the loss."""
    arrows = {
        "attraction_x": -drawn_in[:, 0],
        "attraction_y": -drawn_in[:, 1],
        "repulsion_x": -pushed_out[:, 0],
        "repulsion_y": -pushed_out[:, 1],
    }
    return pd.DataFrame({"view": view, "label": labels, "x": points[:, 0], "y": points[:, 1], **arrows})
