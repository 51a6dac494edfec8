"""Race: the training loop, probes and records included, against a bare PyTorch loop of the same deep networks.

Fully connected networks and ResNets with batch normalisation and with NormReLU, one run and several. Both sides do what
a training of Figures 1 to 8 does in an epoch: steps of SGD with momentum on shuffled batches, then the test accuracy.
The loop also measures the mean dot product of the test representations after every epoch, its default interval, and
trains several runs together where the study does. The bare loop trains its networks one after the other, in the same
memory layout and on the same threads. Weights are drawn before the clock starts.
Run it on an idle machine: python benchmarks/deep_training.py --threads 2
Where others use the machine too, `--threads 1 --clock processor` compares processor time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import nn

from tangentbench.networks.deep_architecture import DeepArchitecture
from tangentbench.networks.initialisation import stream
from tangentbench.networks.resnet_runs import DeepNets, _channels_last, draw_runs, gains_together
from tangentbench.training.batches import Examples, epoch_order
from tangentbench.training.loop import TrainingRecipe, TrainingRuns, train
from tangentbench.training.optimisers import Optimiser
from tangentbench.training.representations import dot_product_probe

SEED, CLASSES, SIDE, BATCH, MOMENTUM, STEP = 0, 10, 32, 128, 0.9, 1e-3
WANTED_RATIO = 0.9
TEST_SHARE, PROBE_SHARE = 5, 20
"""A test image for so many training images, and one whose representation is compared, as at scale cpu."""
EVALUATION_BATCH = 500
NETWORKS = {
    "fc": [("fc", 32, 256), ("fc", 32, 512)],
    "resnet": [("resnet", 20, 8), ("resnet", 20, 16)],
}
NORMALISATIONS = ("batch_norm", "layer_norm", "norm_relu")
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


def images(count: int, seed: int) -> Examples:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 3, SIDE, SIDE, generator=generator)
    return Examples(inputs, torch.randint(0, CLASSES, (count,), generator=generator))


def bare(network: nn.Module, training: Examples, test: Examples, order: torch.Tensor, epochs: int) -> float:
    """As torch users write it; returns the last test accuracy."""
    updates = torch.optim.SGD(network.parameters(), lr=STEP, momentum=MOMENTUM)
    criterion = nn.CrossEntropyLoss()
    right = 0.0
    for epoch in range(epochs):
        network.train()
        total = 0.0
        for chosen in order[epoch].split(BATCH):
            updates.zero_grad()
            loss = criterion(network(_channels_last(training.inputs[chosen])), training.labels[chosen])
            loss.backward()
            updates.step()
            total += float(loss.detach())
        network.eval()
        with torch.no_grad():
            right = 0.0
            batches = zip(test.inputs.split(EVALUATION_BATCH), test.labels.split(EVALUATION_BATCH), strict=True)
            for inputs, labels in batches:
                right += float((network(_channels_last(inputs)).argmax(dim=1) == labels).sum())
    return right / len(test)


def looped(nets: DeepNets, runs: list[int], training: Examples, test: Examples, epochs: int) -> None:
    probe = dot_product_probe(test.inputs[: max(2, len(training) // PROBE_SHARE)], range(1, epochs + 1))
    train(
        nets,
        training,
        TrainingRecipe(epochs, BATCH, optimiser=Optimiser("sgd", MOMENTUM), evaluation_batch=EVALUATION_BATCH),
        TrainingRuns(runs, [STEP] * len(runs), SEED),
        label="race",
        evaluate={"test": test},
        probes=[probe],
    )


def race(
    architecture: DeepArchitecture, runs: int, count: int, epochs: int, clock: Callable[[], float]
) -> tuple[float, float]:
    """Seconds of the loop and of the bare one."""
    training, test = images(count, 0), images(max(1, count // TEST_SHARE), 1)
    numbers = list(range(runs))
    groups = [numbers] if gains_together(architecture) else [[run] for run in numbers]
    drawn = [draw_runs(architecture, group, SEED) for group in groups]
    start = clock()
    for nets, group in zip(drawn, groups, strict=True):
        looped(nets, group, training, test, epochs)
    ours = clock() - start
    del drawn, nets
    networks = [architecture.network(stream(SEED, run).initial_seed()) for run in numbers]
    orders = [torch.cat([epoch_order([run], SEED, epoch, count) for epoch in range(1, epochs + 1)]) for run in numbers]
    start = clock()
    for network, order in zip(networks, orders, strict=True):
        bare(network, training, test, order, epochs)
    return ours, clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--runs", type=int, default=3, help="how many runs are several")
    parser.add_argument("--images", type=int, default=5120)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--only", choices=sorted(NETWORKS), help="one family of networks")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = CLOCKS[options.clock]
    # torch loads parts of itself at the first step
    race(DeepArchitecture("fc", 2, 8, "batch_norm", (3, SIDE, SIDE), CLASSES), 1, BATCH, 1, clock)
    for family in [options.only] if options.only else NETWORKS:
        for kind, depth, width in NETWORKS[family]:
            for normalisation in NORMALISATIONS:
                architecture = DeepArchitecture(
                    kind, depth, width, normalisation, (3, SIDE, SIDE), CLASSES, "fan_in", 0.5**0.5
                )
                for runs in (1, options.runs):
                    races = [
                        race(architecture, runs, options.images, options.epochs, clock) for _ in range(options.repeats)
                    ]
                    ours, theirs = map(min, zip(*races, strict=True))
                    samples = options.images * options.epochs * runs
                    print(
                        f"{kind}, depth {depth}, width {width}, {normalisation}, {runs} run(s), {options.threads} "
                        f"thread(s): loop {samples / ours:,.0f} sample-runs/s, bare {samples / theirs:,.0f}; "
                        f"ratio {theirs / ours:.2f} (wanted: {WANTED_RATIO:g})",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
