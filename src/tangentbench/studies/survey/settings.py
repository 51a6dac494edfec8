"""The settings of the survey's artifacts, for its measurements and its work models: nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from tangentbench.kernels.architectures import MYRTLE_STAGES, RESNET50_BLOCKS, myrtle, resnet50
from tangentbench.kernels.network import Network
from tangentbench.studies.settings import Positive, Settings, Share, WrongSetting, settings_of

RESNET_CHANNELS = 64
FINITE: Final = "finite"
"""The way to compute a kernel by a finite network."""

Kernel = Literal["ntk", "nngp", "empirical_ntk"]
Backend = Literal["neural_tangents", "native", "torch"]
Way = Literal[Backend, "finite"]
Amount = Annotated[float, Meta(gt=0)]


class Myrtle(Settings, frozen=True, tag="myrtle", tag_field="name"):
    """depth: 5, 7 or 10. channels: of the finite network."""

    depth: Positive
    channels: Positive

    def __post_init__(self) -> None:
        if self.depth not in MYRTLE_STAGES:
            known = ", ".join(map(str, MYRTLE_STAGES))
            raise WrongSetting("depth", f"the Myrtle network has no depth {self.depth} (allowed: {known})")

    def network(self, outputs: int) -> Network:
        return myrtle(self.depth, self.channels, outputs)


class ResNet50(Settings, frozen=True, tag="resnet50", tag_field="name"):
    """blocks: per stage. width_factor: of the finite network, over that of ResNet-50."""

    blocks: tuple[Positive, ...] = RESNET50_BLOCKS
    stem: Literal["imagenet", "cifar"] = "imagenet"
    width_factor: Amount = 1.0

    def network(self, outputs: int) -> Network:
        return resnet50(self.blocks, self.stem, max(1, round(RESNET_CHANNELS * self.width_factor)), outputs)


class Integration(Settings, frozen=True):
    """Steps of Euler's method, each a share of the largest stable one."""

    steps: Positive
    step_share: Share


class Timing(Settings, frozen=True):
    """How often a stage is repeated: `repeats` times, not again once `seconds` have passed, more if it is short."""

    repeats: Positive
    seconds: Annotated[float, Meta(ge=0)]


class Regression(Settings, frozen=True):
    """What all figures of section 2.9 share.

    batch_size: images per batch while neural-tangents builds the Gram matrix.
    finite_gib: memory for the finite network's gradients.
    test_images: per way to compute a kernel.
    """

    architecture: Myrtle | ResNet50
    kernels: tuple[Kernel, ...]
    backends: tuple[Backend, ...]
    loss: Literal["binary_cross_entropy", "cross_entropy"]
    integration: Integration
    timing: Timing
    batch_size: Positive
    finite_gib: Amount
    test_images: dict[Way, Positive]

    def __post_init__(self) -> None:
        self._require_every_way("test_images", self.test_images)

    @property
    def ways(self) -> list[tuple[Kernel, Way]]:
        """Every kernel with every way to compute it; the finite network has one."""
        return [(kernel, way) for kernel in self.kernels for way in self._ways_of(kernel)]

    def _ways_of(self, kernel: Kernel) -> tuple[Way, ...]:
        return (FINITE,) if kernel == "empirical_ntk" else self.backends

    def outputs(self, classes: int) -> int:
        return 1 if self.loss == "binary_cross_entropy" else classes

    def _require_every_way(self, key: str, given: Mapping[Any, object]) -> None:
        if missing := sorted({way for _, way in self.ways} - set(given)):
            raise WrongSetting(key, f"there is nothing for {', '.join(missing)}")


@settings_of("survey_fig2_5", "survey_fig2_6", "survey_fig2_7")
class AgainstImages(Regression, frozen=True):
    """train_sizes: numbers of training images, per way to compute a kernel."""

    train_sizes: dict[Way, Annotated[tuple[Positive, ...], Meta(min_length=1)]]
    image_side: Positive
    extrapolate_to: Positive

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_every_way("train_sizes", self.train_sizes)


@settings_of("survey_fig2_8")
class AgainstSide(Regression, frozen=True):
    """sides: of the images, per way to compute a kernel."""

    sides: dict[Way, Annotated[tuple[Positive, ...], Meta(min_length=1)]]
    train_images: Positive
    extrapolate_to_side: Positive
    extrapolate_to_images: Positive

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_every_way("sides", self.sides)
