"""What Figures A.1 to A.7 share: a row of panels over the width, one style per distribution, and limits above noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tangentbench.studies.style import MARKERS, category_colours, figure_grid, log_axis, value_ticks

V = TypeVar("V")

_NOISE = 2.0
"""A distance in the limit is drawn where it is this many standard errors."""
_LABELS = {
    "gaussian": "Gaussian",
    "gaussian_again": "Gaussian again",
    "truncated_gaussian": "truncated Gaussian",
    "laplace": "Laplace",
}


@dataclass(frozen=True)
class CurveStyle:
    """How the curves of a distribution look."""

    colour: str
    marker: str
    label: str


def styles_of(curves: pd.DataFrame) -> dict[str, CurveStyle]:
    """By distribution, in the order of the table."""
    names = list(dict.fromkeys(curves["law"]))
    colours = category_colours(names)
    return {
        name: CurveStyle(colours[name], marker, _LABELS.get(name, name.replace("_", " ")))
        for name, marker in zip(names, MARKERS, strict=False)
    }


def panel_row(
    values: Sequence[V], panel_size: tuple[float, float], ylabel: str, draw: Callable[[Axes, V], None]
) -> Figure:
    """One panel for each value, side by side with a common y axis."""
    width, height = panel_size
    fig, axes = figure_grid(1, len(values), width=width * len(values), panel_height=height, sharey=True)
    for axis, value in zip(axes[0], values, strict=True):
        draw(axis, value)
    axes[0, 0].set_ylabel(ylabel)
    return fig


def width_axes(axis: Axes, widths: pd.Series, turned: bool = False) -> None:
    """Both axes logarithmic, with a tick at every width; `turned` where there are many."""
    log_axis(axis, "x", base=2)
    log_axis(axis, "y")
    value_ticks(axis, "x", widths.astype(float))
    axis.tick_params(axis="x", labelsize=8, labelrotation=45 if turned else 0)
    axis.set_xlabel("width $n$")


def clear_of_noise(distances: pd.Series) -> float | None:
    """The mean of several estimates, or None where it may as well be zero."""
    if len(distances) < 2:
        return None
    mean, error = float(distances.mean()), float(distances.std(ddof=1)) / np.sqrt(len(distances))
    return mean if mean > _NOISE * error else None
