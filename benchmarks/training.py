"""Race: 8 seeds of the MNIST network (w=128, d=6, batch 32) together, against PyTorch in its fastest mode.

Both sides start from the same weights, see the same batches of real digits in the same order and use the same cores.
PyTorch is tried one network after the other, compiled, and stacked with torch.func, each with all threads in one
process and with one thread per core (peers/torch_modes.py); the ratio is to the fastest. A short race in float64 first
shows that the losses of all agree to rounding at every step; in float32 they part as soon as rounding moves one
pre-activation across the kink of a ReLU. On an idle machine:

    python benchmarks/training.py --threads 2
"""

from __future__ import annotations

import argparse
import time

import torch
from peers.torch_modes import WAYS, Trial, modes, seconds

from tangentbench.networks.architecture import fully_connected
from tangentbench.networks.gated import RELU, GatedNets, build
from tangentbench.training.batches import Batches, Examples, epoch_order
from tangentbench.training.loop import TrainingRecipe, TrainingRuns, TrainingSession
from tangentbench.training.optimisers import ADAM_BETAS, KERAS_EPSILON, Optimiser

WIDTH, DEPTH, CLASSES, PIXELS, BATCH = 128, 6, 10, 784, 32
LEARNING_RATES = {"sgd": 0.1, "adam": 1e-4}
CHECKED_STEPS = 50
SEED = 0


def stacked_epoch(nets: GatedNets, batches: Batches, optimiser: str) -> torch.Tensor:
    recipe = TrainingRecipe(epochs=1, batch_size=BATCH, optimiser=Optimiser(optimiser))
    runs = TrainingRuns(range(nets.runs), [LEARNING_RATES[optimiser]] * nets.runs, SEED)
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


def start(seeds: int, dtype: torch.dtype) -> GatedNets:
    return build(fully_connected((PIXELS,), WIDTH, DEPTH, CLASSES), RELU, range(seeds), SEED, dtype=dtype)


def trial(nets: GatedNets, examples: Examples, optimiser: str) -> Trial:
    """The same training for PyTorch: our weights at the start, our batches."""
    runs = [nets.parameters.of_run(slot) for slot in range(nets.runs)]
    weights = [[(run[f"value_weight_{n}"], run[f"value_bias_{n}"]) for n in range(1, DEPTH + 1)] for run in runs]
    orders = torch.stack(list(epoch_order(range(nets.runs), SEED, 1, len(examples))))
    return Trial(
        weights,
        examples.inputs,
        examples.labels,
        orders,
        BATCH,
        optimiser,
        LEARNING_RATES[optimiser],
        KERAS_EPSILON,
        ADAM_BETAS[1],
    )


def largest_difference(examples: Examples, seeds: int, optimiser: str) -> float:
    """Of a loss between ours and each of the peer's ways, in float64."""
    nets = start(seeds, torch.float64)
    peers = [way(trial(nets, examples, optimiser)) for way in WAYS.values()]
    ours = stacked_epoch(nets, Batches(examples, BATCH), optimiser)
    return max(float((ours - peer).abs().max()) for peer in peers)


def our_seconds(examples: Examples, seeds: int, optimiser: str, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        nets, batches = start(seeds, torch.float32), Batches(examples, BATCH)
        begin = time.perf_counter()
        stacked_epoch(nets, batches, optimiser)
        times.append(time.perf_counter() - begin)
    return min(times)


def race(examples: Examples, seeds: int, optimiser: str, repeats: int) -> None:
    cores = torch.get_num_threads()
    samples = len(examples) * seeds
    ours = our_seconds(examples, seeds, optimiser, repeats)
    print(f"{optimiser}, {cores} thread(s): ours {samples / ours:,.0f} sample-seeds/s", flush=True)
    times = {}
    for mode in modes(cores):
        times[mode] = seconds(mode, trial(start(seeds, torch.float32), examples, optimiser), repeats)
        print(f"    PyTorch, {mode}: {samples / times[mode]:,.0f}", flush=True)
    best = min(times, key=lambda mode: times[mode])
    print(f"  ratio {times[best] / ours:.2f} to the fastest ({best})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--images", type=int, default=3200)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    examples = digits(options.images)
    few = Examples(examples.inputs[: CHECKED_STEPS * BATCH].double(), examples.labels[: CHECKED_STEPS * BATCH])
    for optimiser in LEARNING_RATES:
        difference = largest_difference(few, options.seeds, optimiser)
        print(f"{optimiser}: largest difference of a loss in float64 {difference:.1e}", flush=True)
        race(examples, options.seeds, optimiser, options.repeats)


if __name__ == "__main__":
    main()
