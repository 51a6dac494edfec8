"""1,024 networks of one hidden layer and width 256 trained together, against one after the other in plain PyTorch.

Both train on ten images of 4x4 pixels with full-batch gradient descent and momentum (thesis A.14), from the same
weights. The peer is an ordinary loop: nn.Linear without biases, cross_entropy, backward, torch.optim.SGD. It trains a
few of the networks and is extrapolated to all of them. Drawing the weights is left out on both sides.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import click
import numpy as np
import torch

from tangentbench.networks.small_mlp import ShallowNets, Span, draw
from tangentbench.networks.weight_distributions import DISTRIBUTIONS
from tangentbench.training.engines.ensembles import EnsembleSchedule, losses_of, train

CLASSES, PIXELS, IMAGES = 10, 48, 10
SEED = 0
Clock = Callable[[], float]
CHUNK = 96
"""Networks whose weights and momenta fit into the processor's cache."""


def one_after_the_other(
    weights: ShallowNets, inputs: torch.Tensor, labels: torch.Tensor, steps: int, step: float, clock: Clock
) -> tuple[np.ndarray, float]:
    """Final losses of the networks and seconds for each of them."""
    losses = []
    begin = clock()
    for run in range(len(weights.last)):
        first = torch.nn.Linear(PIXELS, weights.width, bias=False)
        last = torch.nn.Linear(weights.width, CLASSES, bias=False)
        with torch.no_grad():
            first.weight.copy_(weights.first[run].T)
            last.weight.copy_(weights.last[run])
        parameters = [first.weight, last.weight]
        optimiser = torch.optim.SGD(parameters, lr=step * weights.rate_scale, momentum=0.9)
        for _ in range(steps):
            optimiser.zero_grad()
            outputs = weights.output_scale * last(torch.relu(first(inputs)))
            torch.nn.functional.cross_entropy(outputs, labels).backward()
            optimiser.step()
        with torch.no_grad():
            outputs = weights.output_scale * last(torch.relu(first(inputs)))
            losses.append(float(torch.nn.functional.cross_entropy(outputs, labels)))
    return np.array(losses), (clock() - begin) / len(weights.last)


def together(
    parts: list[ShallowNets], span: Span, labels: torch.Tensor, steps: int, step: float, clock: Clock
) -> tuple[np.ndarray, float]:
    """Final losses and seconds for all networks."""
    begin = clock()
    schedule = EnsembleSchedule((steps,), IMAGES, step, 0.9)
    losses = [train(nets, span, labels, CLASSES, schedule, torch.randperm)["train_loss"][0] for nets in parts]
    return np.concatenate(losses), clock() - begin


@click.command()
@click.option("--networks", default=1024, show_default=True)
@click.option("--width", default=256, show_default=True)
@click.option("--steps", default=100, show_default=True)
@click.option("--step", default=0.3, show_default=True)
@click.option("--peer-networks", default=24, show_default=True, help="How many the plain loop trains.")
@click.option("--repeats", default=3, show_default=True, help="The best of so many counts, for both.")
@click.option("--threads", default=2, show_default=True)
@click.option("--processor", is_flag=True, help="Count processor time, for a machine that others use too.")
def main(
    networks: int, width: int, steps: int, step: float, peer_networks: int, repeats: int, threads: int, processor: bool
) -> None:
    """Print seconds, ratio and the largest difference of the losses."""
    torch.set_num_threads(threads)
    clock = time.process_time if processor else time.perf_counter
    generator = torch.Generator().manual_seed(SEED)
    inputs = torch.rand(IMAGES, PIXELS, generator=generator)
    labels = torch.randint(0, CLASSES, (IMAGES,), generator=generator)
    span, distribution = Span.of(inputs), DISTRIBUTIONS["gaussian"]
    whole = Span(inputs / PIXELS**0.5, torch.eye(PIXELS))
    shape = whole.shape(width, 1, CLASSES)

    def drawn() -> list[ShallowNets]:
        source = torch.Generator().manual_seed(SEED + 1)
        sizes = [min(CHUNK, networks - start) for start in range(0, networks, CHUNK)]
        return [draw(whole, shape, size, distribution, distribution, "maximal_update", source) for size in sizes]

    def reduced() -> list[ShallowNets]:
        return [
            ShallowNets(torch.matmul(span.basis.T, one.first), None, one.last, one.output_scale, one.rate_scale)
            for one in drawn()
        ]

    first = drawn()[0]
    few = ShallowNets(
        first.first[:peer_networks], None, first.last[:peer_networks], first.output_scale, first.rate_scale
    )
    alone_losses, alone = min(
        (one_after_the_other(few, whole.inputs, labels, steps, step, clock) for _ in range(repeats)),
        key=lambda pair: pair[1],
    )
    losses, seconds = min(
        (together(reduced(), span, labels, steps, step, clock) for _ in range(repeats)), key=lambda pair: pair[1]
    )
    gap = np.abs(losses[: len(alone_losses)] - alone_losses).max()
    start = float(losses_of(few, whole.inputs, labels).mean())
    counted = "processor" if processor else "wall"
    print(f"{networks} networks of width {width}, {steps} steps, {threads} threads, {counted} time")
    print(f"train loss {start:.3f} -> {losses.mean():.4f}")
    print(f"one after the other  {alone * networks:8.1f} s  ({alone / steps * 1e6:.0f} us a step and network)")
    print(f"together             {seconds:8.1f} s  ({seconds / networks / steps * 1e6:.1f} us a step and network)")
    print(f"ratio                {alone * networks / seconds:8.1f}")
    print(f"largest difference of the final losses {gap:.1e} (relative {gap / alone_losses.mean():.1e})")


if __name__ == "__main__":
    main()
