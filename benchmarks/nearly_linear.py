"""What the figures of chapter 6 cost at 60,000 examples, and what a plain loop would.

    python benchmarks/nearly_linear.py            a projection, in a few minutes
    python benchmarks/nearly_linear.py --full     train every network of the seven figures and time it

Ours: all runs of a figure in one program, an adaptive solver of the gradient flow, gradients by hand. Plain: one
network at a time, autograd, gradient descent at the thesis's step of 0.001. The projection counts the adaptive solver's
gradients on the first 4,000 examples (whitened anew) and prices a gradient by a stated number of measured ones at full
size; the plain loop's steps are counted exactly and priced the same way. Times are CPU seconds over the threads used,
so that other work on the machine counts little. The real images are used where data/mnist_binary_*.npz are prepared,
otherwise noise of the same sizes, on which a gradient costs the same.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from tangentbench.datasets import Dataset, load_dataset
from tangentbench.networks.leaky_mlp import RegressionTask, task_of, velocity
from tangentbench.networks.mlp_shape import MlpShape
from tangentbench.paths import Paths, find_root
from tangentbench.studies.bounds.measure.runs import Family
from tangentbench.studies.bounds.settings import Assumption, Curves, Trainings
from tangentbench.studies.settings import read_settings
from tangentbench.suite.catalogue import load_catalogue
from tangentbench.training.engines.flow import FlowSolver, follow

FIGURES = [f"bounds_fig6_{number}" for number in range(1, 8)]
SAMPLES, SMALL = 60000, 4000


def cpu_seconds(task: Callable[[], object], repeats: int) -> float:
    """Per repeat, over the threads in use."""
    task()
    start = time.process_time()
    for _ in range(repeats):
        task()
    return (time.process_time() - start) / repeats / torch.get_num_threads()


def whitened(x: np.ndarray, labels: np.ndarray, name: str) -> Dataset:
    values, vectors = np.linalg.eigh(x.T.astype(float) @ x / len(x))
    large = values > 1e-9 * values[-1]
    root = (vectors[:, large] / np.sqrt(values[large])) @ vectors[:, large].T
    white = (x @ root).astype(np.float32)
    return Dataset(name, white, labels, white[:10], labels[:10], ("0-4", "5-9"))


def dataset(paths: Paths, side: int) -> Dataset:
    file = paths.dataset(f"mnist_binary_{side}x{side}")
    if Path(file).exists():
        return load_dataset(file)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(SAMPLES, side * side)).astype(np.float32)
    labels = (x @ generator.normal(size=side * side) + generator.normal(size=SAMPLES) * side > 0).astype(np.int64)
    return whitened(x, labels, f"noise_{side}x{side}")


def autograd_step(task: RegressionTask, shape: MlpShape, epsilon: float, step: float) -> Callable[[], None]:
    """One step of the loop anyone would write."""
    layers = [torch.nn.Linear(after_before[1], after_before[0], bias=False) for after_before in shape.layers]
    optimiser = torch.optim.SGD([layer.weight for layer in layers], lr=step)

    def take() -> None:
        act = task.x_train
        for layer in layers[:-1]:
            act = torch.nn.functional.leaky_relu(layer(act), 1 - epsilon)
        loss = 0.5 * (task.y_train - layers[-1](act)[:, 0]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return take


def gradient_prices(task: RegressionTask, shape: MlpShape, repeats: int) -> tuple[float, float]:
    """CPU seconds of one run's gradient, ours (of a batch of two) and by autograd."""
    weights = np.random.default_rng(0).normal(size=(2, shape.parameters)) * 0.01
    ours = cpu_seconds(lambda: velocity(shape, weights, np.array([0.001, 0.01]), task), repeats)
    return ours / 2, cpu_seconds(autograd_step(task, shape, 0.001, 0.001), repeats)


def solve(task: RegressionTask, depth: int, settings: Trainings) -> tuple[int, float]:
    """Gradients of one run that the adaptive solver takes in all, and the time at the end."""
    family = Family.of(settings, task, depth, seed=0)
    flow = follow(
        lambda weights, which: velocity(family.shape, weights, family.epsilons[which], task),
        family.start,
        family.times,
        FlowSolver(tolerance=settings.solver.tolerance),
        label="benchmark",
    )
    return flow.gradients, float(family.times[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--full", action="store_true", help="train everything instead of projecting")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3, help="gradients measured for each size")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    paths = Paths(find_root())
    catalogue = load_catalogue(paths)
    tasks: dict[int, tuple[RegressionTask, RegressionTask]] = {}
    prices: dict[tuple[int, int], tuple[float, float]] = {}
    totals = {"ours": 0.0, "plain": 0.0, "ours, two layers": 0.0}
    print(f"{'figure':16}{'side':>5}{'L':>3}{'runs':>6}{'gradients':>11}{'ours, s':>9}{'steps':>12}{'plain, s':>11}")
    for name in FIGURES:
        artifact = catalogue.artifact(name)
        record = Assumption if name == FIGURES[-1] else Curves
        settings = read_settings(record, artifact.settings_at("cpu"), paths.study_catalogue("bounds"), name)
        runs = len(settings.betas) * len(settings.epsilons) * len(settings.input_layers) * settings.runs
        for side, depth in settings.cases:
            if side not in tasks:
                data = dataset(paths, side)
                tasks[side] = task_of(data), task_of(whitened(data.x_train[:SMALL], data.y_train[:SMALL], data.name))
            whole, small = tasks[side]
            shape = MlpShape(depth, settings.width, side * side)
            if (side, depth) not in prices:
                prices[side, depth] = gradient_prices(whole, shape, arguments.repeats)
            start = time.process_time()
            gradients, end = solve(whole if arguments.full else small, depth, settings)
            spent = (time.process_time() - start) / arguments.threads
            ours_seconds = spent if arguments.full else gradients * prices[side, depth][0]
            steps = runs * end / settings.solver.learning_rate
            plain_seconds = steps * prices[side, depth][1]
            totals["ours"] += ours_seconds
            if depth == 2:
                totals["ours, two layers"] += ours_seconds
                totals["plain"] += plain_seconds
            counted = f"{runs:6}{gradients:11}{ours_seconds:9.1f}{steps:12.3g}{plain_seconds:11.4g}"
            print(f"{name:16}{side:5}{depth:3}{counted}", flush=True)
    print("\nCPU seconds per gradient at 60,000 examples (ours, autograd), threads " + str(arguments.threads))
    for (side, depth), (ours, plain) in prices.items():
        print(f"  {side}x{side}, L = {depth}: {ours:.4f} {plain:.4f}, {plain / ours:.1f} times")
    print(f"seven figures, ours, {'trained' if arguments.full else 'projected'}: {totals['ours'] / 60:.1f} min")
    print(
        f"their two-layer runs: ours {totals['ours, two layers'] / 60:.1f} min, plain {totals['plain'] / 3600:.1f} h, "
    )
    print(f"  {totals['plain'] / totals['ours, two layers']:.0f} times as long")


if __name__ == "__main__":
    main()
