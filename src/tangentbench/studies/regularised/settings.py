"""The settings of the study of L2-regularised features."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from tangentbench.studies.settings import Count, NotNegative, Positive, Settings, Share, WrongSetting, settings_of

PositiveReal = Annotated[float, Meta(gt=0)]


class RaySettings(Settings, frozen=True):
    """How neurons are assigned to rays."""

    count: Positive
    degrees: PositiveReal
    """A neuron this near to a ray belongs to it."""
    share: Share
    """Of the neurons' squared norm that has to belong to rays."""


@settings_of("regularised_fig5_1")
class Forces(Settings, frozen=True):
    """Networks of one size, `runs` of them with other images and weights."""

    digits: tuple[Annotated[int, Meta(ge=0, le=9)], ...]
    images: Positive
    """In all, equally many of each digit."""
    hidden_layers: Positive
    width: Positive
    loss: Literal["cross_entropy"]
    optimiser: Literal["descent"]
    """Training in the span of the images is exact for gradient descent only."""
    steps: Positive
    penalty: NotNegative
    learning_rate: PositiveReal
    bias: float
    tikhonov: PositiveReal
    rays: RaySettings
    runs: Positive

    def __post_init__(self) -> None:
        if not self.digits or self.images % len(self.digits):
            reason = f"{self.images} images cannot be equally many of each of {len(self.digits)} digits"
            raise WrongSetting("images", f"{reason}: give a multiple of that number")


class PanelSettings(Settings, frozen=True):
    """The networks of one panel: every width, penalty and trial."""

    images: Positive
    penalties: tuple[NotNegative, ...]
    trials: Positive
    adam_steps: Count
    descent_steps: Count

    def __post_init__(self) -> None:
        if self.adam_steps + self.descent_steps == 0:
            raise WrongSetting("adam_steps", "neither Adam nor descent takes a step: give one of them some")


@settings_of("regularised_fig5_2")
class Plateau(Settings, frozen=True):
    """Adam first, then full-batch gradient descent."""

    panels: tuple[Literal["mnist", "teacher"], ...]
    mnist: PanelSettings
    teacher: PanelSettings
    hidden_layers: Positive
    widths: tuple[Positive, ...]
    adam_learning_rate: PositiveReal
    descent_learning_rate: PositiveReal
    bias: float
    plateau_tolerance: PositiveReal
    """A width is on the plateau when its loss is within this share of the smallest."""
    other_tolerances: tuple[PositiveReal, ...]

    def panel(self, name: str) -> PanelSettings:
        return self.mnist if name == "mnist" else self.teacher
