"""The settings of the bounds study: which networks are trained, and how the theorem is read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Annotated, Literal

from msgspec import Meta

from tangentbench.studies.settings import Positive, Settings, WrongSetting, settings_of

Depth = Annotated[int, Meta(ge=2)]
"""Layers of weights."""
Kappa = Literal[1, 2]
PositiveReal = Annotated[float, Meta(gt=0)]
Fraction = Annotated[float, Meta(gt=0, lt=1)]
Nonlinearity = Annotated[float, Meta(ge=0, le=1)]
"""epsilon: the negative slope of the leaky ReLU is 1 - epsilon."""
InputLayer = Literal["full_rank", "rank_one"]
MarginDivisors = tuple[Annotated[int, Meta(ge=1)] | Annotated[float, Meta(gt=0)], ...]
"""q of the margin gamma = beta^L / q."""


class Solver(Settings, frozen=True):
    """How the gradient flow is followed."""

    method: Literal["adaptive", "descent"]
    learning_rate: PositiveReal
    """Of the method `descent`."""
    tolerance: PositiveReal
    """Relative local error of the method `adaptive`."""


class Times(Settings, frozen=True):
    """When the networks are looked at: at the start, then at times of equal ratios up to the end."""

    end_in_learning_times: PositiveReal
    """The end, in learning times of the linear network at the smallest beta."""
    learnt_fraction: Fraction
    """Of the signal, at the learning time."""
    first_share: Fraction
    """The first time after the start, as a share of the end."""
    points: Annotated[int, Meta(ge=2)]


class Theorem(Settings, frozen=True):
    """How theorem 6.5.2 is read; the fields of theory/nearly_linear/setting.py's Reading, which explains them."""

    beta_bar: Literal["factor", "power"] = "factor"
    stable_rank: Literal["linear", "root"] = "linear"
    w_start: Literal["beta_bar", "beta"] = "beta_bar"
    w_factor: Literal["one_bar_over_s_bar", "one_over_s_bar", "one_bar_over_s_hat"] = "one_bar_over_s_bar"
    rank_factor: Literal["dropped", "kept"] = "dropped"


class Trainings(Settings, frozen=True):
    """The networks that an artifact trains: every beta, epsilon and input layer, `runs` times each."""

    samples: Positive
    """Size of the training set: the estimate counts with it, and the data must agree."""
    betas: tuple[PositiveReal, ...]
    epsilons: tuple[Nonlinearity, ...]
    input_layers: tuple[InputLayer, ...]
    width: Positive
    runs: Positive
    times: Times
    solver: Solver

    @property
    def cases(self) -> Sequence[tuple[int, int]]:
        """Side of the images and depth of the networks, for each family that trains together."""
        raise NotImplementedError


@settings_of("bounds_fig6_1", "bounds_fig6_2", "bounds_fig6_3", "bounds_fig6_4", "bounds_fig6_5", "bounds_fig6_6")
class Curves(Trainings, frozen=True):
    """The bound during training."""

    sides: tuple[Positive, ...]
    depths: tuple[Depth, ...]
    kappas: tuple[Kappa, ...]
    precisions: tuple[Positive, ...]
    qs: MarginDivisors
    failure_probability: Fraction
    theorem: Theorem

    @property
    def cases(self) -> Sequence[tuple[int, int]]:
        return list(product(self.sides, self.depths))


class OneCase(Trainings, frozen=True):
    """Networks of one depth on images of one size."""

    side: Positive
    depth: Depth

    @property
    def cases(self) -> Sequence[tuple[int, int]]:
        return [(self.side, self.depth)]


@settings_of("bounds_fig6_7")
class Assumption(OneCase, frozen=True):
    """The projected loss during training."""

    shown_offset: PositiveReal


@settings_of("bounds_figD_1", "bounds_figD_2")
class Optimistic(OneCase, frozen=True):
    """The bound with its terms measured on the test set."""

    proxies: tuple[Literal["kappa_1", "kappa_2", "linear"], ...]
    gammas: tuple[PositiveReal, ...]
    phase_margin: Fraction
    late_phase_margin: Fraction


@settings_of("bounds_atlas")
class Atlas(Settings, frozen=True):
    """The bound before training on a grid of epsilon and dimension over examples."""

    depth: Depth
    dimension: Positive
    beta: PositiveReal
    rho: Annotated[float, Meta(ge=1)]
    s: Annotated[float, Meta(gt=0, le=1)]
    failure_probability: Fraction
    kappas: tuple[Kappa, ...]
    precisions: tuple[Positive, ...]
    qs: MarginDivisors
    clearance: PositiveReal
    epsilon_range: tuple[PositiveReal, PositiveReal]
    ratio_range: tuple[PositiveReal, PositiveReal]
    points: Annotated[int, Meta(ge=2)]

    def __post_init__(self) -> None:
        for name in ("epsilon_range", "ratio_range"):
            low, high = getattr(self, name)
            if low >= high:
                raise WrongSetting(name, f"[{low:g}, {high:g}] begins with its larger end: write the smaller one first")
