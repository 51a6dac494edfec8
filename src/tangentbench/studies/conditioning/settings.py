"""The settings of the conditioning study: one record per kind of artifact.

Light: Snakemake's own process reads them, so nothing here imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import msgspec.structs

from tangentbench.networks.deep_architecture import KINDS, DeepArchitecture, Fan, Kind, Normalisation
from tangentbench.studies.settings import (
    Count,
    NotNegative,
    Positive,
    Settings,
    Share,
    WrongSetting,
    settings_of,
)

Number = Annotated[float, msgspec.Meta(gt=0)]
NetworkName = str
"""Architecture and depth: `fc_32`, `resnet_110`."""
LearningRates = dict[Normalisation, Number]


ActivationSetting = str | dict[str, str | float]
"""`relu`, or `{name: leaky_relu, slope: 0.1}`."""


def _check_activations(key: str, activations: tuple[ActivationSetting, ...]) -> None:
    for setting in activations:
        if isinstance(setting, dict) and "name" not in setting:
            raise WrongSetting(key, f"the activation {setting} has no name: write {{name: ..., parameter: value}}")


@settings_of("conditioning_table_mu")
class Coefficients(Settings):
    activations: tuple[ActivationSetting, ...]
    """The paper's rows."""
    own_activations: tuple[ActivationSetting, ...]
    """Rows of our own."""

    def __post_init__(self) -> None:
        _check_activations("activations", self.activations)
        _check_activations("own_activations", self.own_activations)


@settings_of("conditioning_fig2")
class ActivationCurves(Settings):
    c: float
    inputs: tuple[float, float]
    """The ends of the horizontal axis."""
    points: Annotated[int, msgspec.Meta(ge=2)]

    def __post_init__(self) -> None:
        if self.inputs[0] >= self.inputs[1]:
            raise WrongSetting("inputs", f"the first of two ends must be the smaller one, not {list(self.inputs)}")


@settings_of("conditioning_fig6")
class NormPropagationCurves(Settings):
    c: float
    squared_norms: tuple[Number, Number]
    """The smallest and the largest, on either side of 1."""
    points: Annotated[int, msgspec.Meta(ge=3)]
    """On either side of 1."""
    layers: Positive
    """Over how many layers biases are summed."""

    def __post_init__(self) -> None:
        if not self.squared_norms[0] < 1.0 < self.squared_norms[1]:
            raise WrongSetting("squared_norms", f"1 must be between the two, which are {list(self.squared_norms)}")


class ActivationFamilies(Settings):
    """The base of artifacts that compare normalised activations with such that are only scaled."""

    activations: tuple[ActivationSetting, ...]
    """Normalised before use: mean 0 and second moment 1."""
    uncentred_activations: tuple[ActivationSetting, ...]
    """Scaled to second moment 1."""

    def __post_init__(self) -> None:
        _check_activations("activations", self.activations)
        _check_activations("uncentred_activations", self.uncentred_activations)


@settings_of("conditioning_theorem5")
class DeepKernels(ActivationFamilies):
    deltas: tuple[Number, ...]
    """Separations of the pairs."""
    activations_applied: Literal["proof", "definition"]
    """How many activations a network of depth L applies: L, or L - 1."""
    depth_max: Positive
    records: Positive
    """How many depths are recorded, evenly in the logarithm."""
    images: Annotated[int, msgspec.Meta(ge=2)]


class UnequalNorms(Settings):
    """Theorem 59: NormReLU with the kink `c` on inputs of these squared norms; its epsilon is free."""

    c: float
    squared_norms: tuple[Number, ...]
    epsilon: Number


@settings_of("conditioning_theorem3")
class TopLayerKernels(DeepKernels):
    unequal_norms: UnequalNorms


class DescentNetworks(Settings):
    """Finite networks of one width; one that needs more than `max_steps` has no number of steps."""

    width: Positive
    max_steps: Positive


@settings_of("conditioning_training")
class Descent(ActivationFamilies):
    depths: tuple[Positive, ...]
    images: Annotated[int, msgspec.Meta(ge=2)]
    runs: Positive
    loss_ratio: Share
    """Descent ends when the squared error is this share of its first value."""
    top_layer: DescentNetworks
    all_layers: DescentNetworks


class Shape(Settings):
    """Widths, and how weights are drawn."""

    fc_width: Positive = 1
    resnet_channels: Positive = 1
    fc_initialisation: Fan = "fan_out"
    resnet_initialisation: Fan = "fan_out"
    skip_scale: Number = 1.0
    """The factor of sums at skip connections, in networks with NormReLU or SeLU."""


class Schedule(Settings):
    """How a network is trained, apart from its first learning rate."""

    epochs: Positive
    batch_size: Positive
    optimiser: Literal["sgd", "adam", "rmsprop"]
    momentum: NotNegative
    weight_decay: NotNegative
    learning_rate_drop: Share
    """The factor of the learning rate at each drop."""
    drop_every_epochs: Count
    """0: the learning rate stays constant."""

    def shortened(self, epochs: int) -> Schedule:
        """The same schedule in fewer epochs, with its drops at the same shares of the training."""
        every = max(1, round(self.drop_every_epochs * epochs / self.epochs)) if self.drop_every_epochs else 0
        return msgspec.structs.replace(self, epochs=epochs, drop_every_epochs=every)


class Images(Settings):
    """How many images to train on, to test on and to compare representations of, and how they are prepared."""

    train: Positive
    test: Positive
    probe: Annotated[int, msgspec.Meta(ge=2)]
    side: Positive
    pixels: Literal["standardised", "unit_interval"] = "standardised"


class LearningRateSearch(Settings):
    """Of a grid, the learning rate with the best accuracy on held-out images after so many epochs."""

    grid: dict[Kind, tuple[Number, ...]]
    epochs: Positive
    held_out: Positive


@dataclass(frozen=True)
class TrainingSettings:
    """All settings that decide what the runs of one network do."""

    architecture: DeepArchitecture
    schedule: Schedule
    drop_epochs: tuple[int, ...]
    """Where given, the epochs after which the learning rate drops, in place of the schedule's."""
    images: Images
    search: LearningRateSearch | None
    learning_rate: float | None
    """The printed one, where none is searched for."""
    augmentation: bool
    probe_absolute: bool

    @property
    def candidates(self) -> tuple[float, ...]:
        """The learning rates to choose from; none where the printed one is used."""
        return () if self.search is None else self.search.grid[self.architecture.kind]


@settings_of(
    "conditioning_fig1",
    "conditioning_fig3",
    "conditioning_fig4",
    "conditioning_fig5",
    "conditioning_fig7",
    "conditioning_fig8",
)
class Trainings(Settings, kw_only=True):
    networks: tuple[NetworkName, ...]
    normalisations: tuple[Normalisation, ...]
    learning_rates: dict[NetworkName, LearningRates]
    """As printed; used where there is no search."""
    shape: Shape
    schedule: Schedule
    drop_epochs: dict[Normalisation, tuple[Positive, ...]]
    """Epochs after which the learning rate drops, for normalisations that do not follow the schedule."""
    images: Images
    learning_rate_search: LearningRateSearch | None = None
    runs: Positive
    augmentation: bool
    probe_absolute: bool
    """Whether the absolute values of dot products are averaged."""
    train_level: Annotated[float, msgspec.Meta(gt=0, le=100)]
    """The train accuracy, in percent, whose first epoch is measured."""

    def __post_init__(self) -> None:
        search = self.learning_rate_search
        if search is not None and search.held_out >= self.images.train:
            reason = f"cannot hold out {search.held_out} of {self.images.train} training images: leave some to train on"
            raise WrongSetting("learning_rate_search.held_out", reason)
        for key, networks in (("networks", self.networks), ("learning_rates", tuple(self.learning_rates))):
            for network in networks:
                _parsed(network, key)
        for network in self.networks:
            for normalisation in self.normalisations:
                self._check(network, normalisation)

    def _check(self, network: NetworkName, normalisation: Normalisation) -> None:
        kind, _ = _parsed(network)
        search, printed = self.learning_rate_search, self.learning_rates
        if search is None and normalisation not in printed.get(network, {}):
            reason = f"there is none for {network} with {normalisation}: add it, or set learning_rate_search"
            raise WrongSetting("learning_rates", reason)
        if search is not None and not search.grid.get(kind):
            raise WrongSetting(
                "learning_rate_search.grid", f"there are no learning rates for {kind}, which {network} is"
            )
        try:
            self.training(network, normalisation)
        except ValueError as error:
            raise WrongSetting("networks", f"{network} with {normalisation}: {error}") from None

    def training(
        self,
        network: NetworkName,
        normalisation: Normalisation,
        image_shape: tuple[int, int, int] | None = None,
        classes: int = 10,
    ) -> TrainingSettings:
        """The settings of one network; `image_shape` is (channels, height, width), colour images unless given."""
        side = self.images.side
        return TrainingSettings(
            self._architecture(network, normalisation, image_shape or (3, side, side), classes),
            self.schedule,
            self.drop_epochs.get(normalisation, ()),
            self.images,
            self.learning_rate_search,
            self.learning_rates[network][normalisation] if self.learning_rate_search is None else None,
            self.augmentation,
            self.probe_absolute,
        )

    def _architecture(
        self, network: NetworkName, normalisation: Normalisation, image_shape: tuple[int, int, int], classes: int
    ) -> DeepArchitecture:
        kind, depth = _parsed(network)
        shape = self.shape
        width, fan = {
            "fc": (shape.fc_width, shape.fc_initialisation),
            "resnet": (shape.resnet_channels, shape.resnet_initialisation),
        }[kind]
        skip_scale = shape.skip_scale if normalisation in ("norm_relu", "selu") else 1.0
        return DeepArchitecture(kind, depth, width, normalisation, image_shape, classes, fan, skip_scale)


def _parsed(network: NetworkName, key: str = "networks") -> tuple[Kind, int]:
    """`resnet_110` as architecture and depth."""
    kind, _, depth = network.rpartition("_")
    if kind not in KINDS or not depth.isdecimal() or int(depth) == 0:
        known = " or ".join(f"{kind}_DEPTH" for kind in KINDS)
        raise WrongSetting(key, f"'{network}' is not known here: write {known}, for instance {KINDS[0]}_32")
    return kind, int(depth)
