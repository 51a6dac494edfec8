"""Race: 8 seeds of the MNIST network (w=128, d=6, batch 32) together, against one after the other in plain PyTorch.

Both sides start from the same weights, see the same batches of real digits in the same order and use the same threads.
A short race in float64 first shows that their losses agree to rounding at every step; in float32 they part as soon as
rounding moves one pre-activation across the kink of a ReLU. Run it on an idle machine:
python benchmarks/training.py --threads 2
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import torch
from torch import nn

from tangentbench.networks.architecture import fully_connected
from tangentbench.networks.gated import RELU, GatedNets, build
from tangentbench.training.batches import Batches, Examples, epoch_order
from tangentbench.training.loop import TrainingRecipe, TrainingRuns, TrainingSession
from tangentbench.training.optimisers import ADAM_BETAS, KERAS_EPSILON, Optimiser

WIDTH, DEPTH, CLASSES, PIXELS, BATCH = 128, 6, 10, 784, 32
STEP_SIZES = {"sgd": 0.1, "adam": 1e-4}
WANTED_RATIO = 4.0
CHECKED_STEPS = 50
SEED = 0


def plain_network(nets: GatedNets, slot: int) -> nn.Sequential:
    """The same network as torch users write it, with the weights of one run."""
    weights = nets.parameters.of_run(slot)
    layers: list[nn.Module] = []
    for number in range(1, DEPTH + 1):
        matrix = weights[f"value_weight_{number}"]
        layer = nn.Linear(*matrix.shape, dtype=matrix.dtype)
        with torch.no_grad():
            layer.weight.copy_(matrix.T)
            layer.bias.copy_(weights[f"value_bias_{number}"])
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def plain_epoch(network: nn.Sequential, examples: Examples, order: torch.Tensor, optimiser: str) -> torch.Tensor:
    parameters = network.parameters()
    step_size = STEP_SIZES[optimiser]
    if optimiser == "sgd":
        updates: torch.optim.Optimizer = torch.optim.SGD(parameters, lr=step_size)
    else:
        updates = torch.optim.Adam(parameters, lr=step_size)
    criterion = nn.CrossEntropyLoss()
    losses = []
    for start in range(0, len(examples), BATCH):
        chosen = order[start : start + BATCH]
        updates.zero_grad()
        loss = criterion(network(examples.inputs[chosen]), examples.labels[chosen])
        loss.backward()
        if optimiser == "adam":
            # Keras' Adam, which ours follows, adds epsilon before the bias correction
            updates.param_groups[0]["eps"] = KERAS_EPSILON / math.sqrt(1 - ADAM_BETAS[1] ** (len(losses) + 1))
        updates.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def stacked_epoch(nets: GatedNets, batches: Batches, optimiser: str) -> torch.Tensor:
    recipe = TrainingRecipe(epochs=1, batch_size=BATCH, optimiser=Optimiser(optimiser))
    runs = TrainingRuns(range(nets.runs), [STEP_SIZES[optimiser]] * nets.runs, SEED)
    session = TrainingSession(nets, recipe, runs, {}, (), "benchmark")
    session.epoch = 1
    return torch.cat([block.losses for block in session.blocks(batches, 1.0)]).T


def digits(images: int) -> Examples:
    """The embedded MNIST digits, repeated until there are enough."""
    from tangentbench.datasets.prepare.pipeline import prepare
    from tangentbench.paths import Paths, find_root

    dataset = prepare("mnist5k", Paths(find_root()), mirror=None, seed=SEED, progress=False)
    places = torch.arange(images) % len(dataset.x_train)
    inputs = torch.from_numpy(dataset.x_train).flatten(1)[places]
    return Examples(inputs, torch.from_numpy(dataset.y_train)[places])


def race(
    examples: Examples, seeds: int, optimiser: str, dtype: torch.dtype, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, float, float]:
    """Seconds together, seconds apart, and the largest difference of a loss."""
    nets = build(fully_connected((PIXELS,), WIDTH, DEPTH, CLASSES), RELU, range(seeds), SEED, dtype=dtype)
    networks = [plain_network(nets, slot) for slot in range(seeds)]
    orders = epoch_order(range(seeds), SEED, 1, len(examples))
    batches = Batches(examples, BATCH)
    start = clock()
    ours = stacked_epoch(nets, batches, optimiser)
    together = clock() - start
    start = clock()
    plain = [plain_epoch(one, examples, order, optimiser) for one, order in zip(networks, orders, strict=True)]
    apart = clock() - start
    return together, apart, float((ours - torch.stack(plain)).abs().max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--images", type=int, default=3200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--processor", action="store_true", help="processor time, for a loaded machine; with --threads 1"
    )
    options = parser.parse_args()
    if options.processor and options.threads != 1:
        parser.error("processor time adds up over threads and says nothing of their speed: use --threads 1")
    clock = time.process_time if options.processor else time.perf_counter
    torch.set_num_threads(options.threads)
    examples = digits(options.images)
    few = Examples(examples.inputs[: CHECKED_STEPS * BATCH].double(), examples.labels[: CHECKED_STEPS * BATCH])
    for optimiser in STEP_SIZES:
        difference = race(few, options.seeds, optimiser, torch.float64)[2]
        races = [race(examples, options.seeds, optimiser, torch.float32, clock)[:2] for _ in range(options.repeats)]
        together, apart = map(min, zip(*races, strict=True))
        samples = options.images * options.seeds
        print(
            f"{optimiser}, {options.threads} thread(s): together {samples / together:,.0f} sample-seeds/s, "
            f"apart {samples / apart:,.0f}; ratio {apart / together:.2f} (wanted: {WANTED_RATIO:g}); "
            f"largest difference of a loss in float64 {difference:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
