"""Race: memorisation networks trained as one batch against one after the other in plain PyTorch with autograd.

Both take the same steps from the same weights on the same threads; the errors after training must agree to rounding.
Run: python benchmarks/memorisation.py [--width 25] [--depth 8] [--runs 10] [--threads 1]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from tangentbench.networks.architecture import MemorisationSpec
from tangentbench.networks.memorisation import MemorisationNets, draw
from tangentbench.theory.memorisation import critical_weight_scale

EXAMPLES = 200
GATE_PROBABILITY = 0.5


def train_batched(nets: MemorisationNets, step_sizes: Tensor, steps: int) -> Tensor:
    for _ in range(steps):
        nets.descend(step_sizes)
    return nets.outputs() - nets.targets


def train_one_by_one(nets: MemorisationNets, step_sizes: Tensor, steps: int) -> Tensor:
    """Each run as its own list of leaf tensors, `backward()` and torch.optim.SGD."""
    return torch.stack([train_plain(nets, run, float(step_sizes[run]), steps) for run in range(len(step_sizes))])


def train_plain(nets: MemorisationNets, run: int, step_size: float, steps: int) -> Tensor:
    gates, targets = nets.gates[:, run].contiguous(), nets.targets[run]
    layers = [nets.first[run], *nets.middle[:, run], nets.last[run]]
    weights = [torch.nn.Parameter(layer.clone()) for layer in layers]
    optimiser = torch.optim.SGD(weights, lr=step_size)

    def error() -> Tensor:
        hidden = weights[0] * gates[0]
        for layer, gate in zip(weights[1:-1], gates[1:], strict=True):
            hidden = (hidden @ layer) * gate
        return hidden @ weights[-1] - targets

    for _ in range(steps):
        optimiser.zero_grad()
        (0.5 * error().square().sum()).backward()
        optimiser.step()
    return error().detach()


def race(
    architecture: MemorisationSpec, runs: int, steps: int, repeats: int, clock: Callable[[], float]
) -> tuple[float, float, float]:
    """Best seconds batched, best seconds one by one, largest relative difference of the final squared errors."""

    def fresh() -> MemorisationNets:
        return draw(architecture, range(runs), seed=0)

    largest = torch.linalg.eigvalsh(fresh().tangent_kernel().double())[:, -1]
    step_sizes = (0.1 / largest).float()

    def best(train: Callable[[MemorisationNets, Tensor, int], Tensor]) -> tuple[float, Tensor]:
        seconds = []
        for _ in range(repeats):
            nets = fresh()
            start = clock()
            errors = train(nets, step_sizes, steps)
            seconds.append(clock() - start)
        return min(seconds), errors.double().square().sum(dim=1)

    batched, ours = best(train_batched)
    alone, plain = best(train_one_by_one)
    return batched, alone, float(((ours - plain).abs() / plain).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, nargs="+", default=[25, 100])
    parser.add_argument("--depth", type=int, nargs="+", default=[4, 12])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--processor", action="store_true", help="processor time, for a loaded machine; with --threads 1"
    )
    options = parser.parse_args()
    if options.processor and options.threads != 1:
        parser.error("processor time adds up over threads and says nothing of their speed: use --threads 1")
    clock = time.process_time if options.processor else time.perf_counter
    torch.set_num_threads(options.threads)
    print(f"{options.runs} runs, {options.steps} steps, {options.threads} threads, best of {options.repeats}")
    print(f"{'width':>6} {'depth':>6} {'batched s':>10} {'one by one s':>13} {'ratio':>6} {'largest difference':>19}")
    for width in options.width:
        for depth in options.depth:
            scale = critical_weight_scale(width, GATE_PROBABILITY)
            architecture = MemorisationSpec(width, depth, EXAMPLES, GATE_PROBABILITY, scale)
            batched, alone, difference = race(architecture, options.runs, options.steps, options.repeats, clock)
            print(f"{width:6} {depth:6} {batched:10.3f} {alone:13.3f} {alone / batched:6.2f} {difference:19.1e}")


if __name__ == "__main__":
    main()
