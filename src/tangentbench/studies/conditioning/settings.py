"""The settings of the conditioning study's trainings as records, and what they mean for one network."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.networks.resnet_runs import ARCHITECTURES, DeepArchitecture
from tangentbench.networks.resnets import NORMALISATIONS
from tangentbench.training.loop import TrainingRecipe
from tangentbench.training.optimisers import Optimiser, StepDecay, StepDrops

STEP_CHOICES = ("printed", "validation")
WITHOUT_LAYERS = ("norm_relu", "selu")
"""Neither normalisation layers nor Fixup: the sums of skip connections are scaled."""


@dataclass(frozen=True)
class Shape:
    """Widths, and how weights are drawn."""

    fc_width: int = 0
    resnet_channels: int = 0
    fc_initialisation: str = "fan_out"
    resnet_initialisation: str = "fan_out"
    skip_scale: float = 1.0


@dataclass(frozen=True)
class Course:
    """The course of a training, apart from its first step size."""

    epochs: int
    batch_size: int
    optimiser: str
    momentum: float
    weight_decay: float
    step_drop: float
    step_drop_every_epochs: int

    def recipe(self, drops: Sequence[int] = ()) -> TrainingRecipe:
        """`drops` are epochs after which the step falls, in place of every so many."""
        optimiser = Optimiser(self.optimiser, self.momentum, self.weight_decay)
        schedule = (
            StepDrops(tuple(drops), self.step_drop) if drops else StepDecay(self.step_drop_every_epochs, self.step_drop)
        )
        return TrainingRecipe(self.epochs, self.batch_size, optimiser=optimiser, schedule=schedule, diverging="stop")

    def shortened(self, epochs: int) -> Course:
        """The same course in fewer epochs, with its drops at the same shares of the way."""
        every = max(1, round(self.step_drop_every_epochs * epochs / self.epochs)) if self.step_drop_every_epochs else 0
        return dataclasses.replace(self, epochs=epochs, step_drop_every_epochs=every)


@dataclass(frozen=True)
class Images:
    """How many images to train on, to test on and to compare representations of, and how they are prepared."""

    train: int
    test: int
    probe: int
    side: int
    pixels: str = "standardised"


@dataclass(frozen=True)
class StepChoice:
    """`printed`: the paper's steps. `validation`: of a grid, the step with the best accuracy on held-out images."""

    how: str
    grid: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)
    epochs: int = 0
    held_out: int = 0

    def __post_init__(self) -> None:
        if self.how not in STEP_CHOICES:
            raise UnknownName("way to choose the step", self.how, STEP_CHOICES)
        if self.how == "validation" and not (self.epochs and self.held_out):
            raise TangentbenchError("choosing steps on a validation split needs `epochs` and `held_out` above 0")

    def steps(self, kind: str) -> list[float]:
        if kind not in self.grid:
            raise UnknownName("architecture of the step grid", kind, self.grid)
        return [float(step) for step in self.grid[kind]]


T = TypeVar("T", Shape, Course, Images, StepChoice)


def record(kind: type[T], settings: Mapping[str, Any], name: str) -> T:
    """The settings group `name` as a record; what it lacks or does not know is named."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for key in settings:
        if key not in fields:
            raise UnknownName(f"setting of {name}", str(key), fields)
    missing = dataclasses.MISSING
    needed = [key for key, one in fields.items() if one.default is missing and one.default_factory is missing]
    if lacking := [key for key in needed if key not in settings]:
        raise TangentbenchError(f"the settings group {name} lacks {', '.join(lacking)}")
    return kind(**settings)


def parsed(network: str) -> tuple[str, int]:
    """`fc_32` or `resnet_110` as architecture and depth."""
    kind, _, depth = network.rpartition("_")
    if kind not in ARCHITECTURES or not depth.isdigit():
        raise UnknownName("network", network, [f"{known}_DEPTH" for known in ARCHITECTURES])
    return kind, int(depth)


def architecture(
    network: str, normalisation: str, shape: Shape, image_shape: tuple[int, int, int], classes: int
) -> DeepArchitecture:
    if normalisation not in NORMALISATIONS:
        raise UnknownName("normalisation", normalisation, NORMALISATIONS)
    kind, depth = parsed(network)
    width, fan = {
        "fc": (shape.fc_width, shape.fc_initialisation),
        "resnet": (shape.resnet_channels, shape.resnet_initialisation),
    }[kind]
    skip_scale = shape.skip_scale if normalisation in WITHOUT_LAYERS else 1.0
    return DeepArchitecture(kind, depth, width, normalisation, image_shape, classes, fan, skip_scale)


def printed_step(steps: Mapping[str, Mapping[str, float]], network: str, normalisation: str) -> float:
    if network not in steps:
        raise UnknownName("network with a printed step", network, steps)
    if normalisation not in steps[network]:
        raise UnknownName(f"normalisation with a printed step for {network}", normalisation, steps[network])
    return float(steps[network][normalisation])
