"""One look for every picture of the suite: sizes, colours that colour-blind readers can tell apart, legends, panels.

Figures are made as objects, never through pyplot's list of open figures, so nothing has to be closed. Importing this
module sets matplotlib's defaults (LOOK) once; they are the same whichever picture is drawn first.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeVar

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import LogFormatter, LogFormatterSciNotation, LogLocator

WIDTH = 9.0
PANEL_HEIGHT = 3.4
DPI = 150

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
"""For unordered categories, in this order (Okabe and Ito, without the yellow that fades on white)."""

PAPER = "#4D4D4D"
"""For what a paper prints: its numbers, its bounds, its reference lines."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""A second sign beside the colour, for categories drawn as points."""

LOOK: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.title_fontsize": 9,
    "legend.frameon": False,
    "figure.titlesize": 12,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": "#404040",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.7,
    "axes.prop_cycle": cycler(color=PALETTE),
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "errorbar.capsize": 2.5,
    "mathtext.fontset": "dejavusans",
    "savefig.facecolor": "white",
    # TrueType in the PDF: letters stay letters, and journals accept it
    "pdf.fonttype": 42,
}
matplotlib.rcParams.update(LOOK)

T = TypeVar("T", int, float, str)


def figure_grid(
    rows: int = 1,
    columns: int = 1,
    *,
    width: float = WIDTH,
    panel_height: float = PANEL_HEIGHT,
    letters: bool | None = None,
    sharex: bool | Literal["none", "all", "row", "col"] = False,
    sharey: bool | Literal["none", "all", "row", "col"] = False,
    width_ratios: Sequence[float] | None = None,
) -> tuple[Figure, np.ndarray]:
    """A figure and its axes, an array of shape (rows, columns) whatever their number.

    Panels are lettered a, b, ... at their upper left where there are several (`letters` says otherwise).

    Example:
        fig, axes = figure_grid(1, 2)
        left, right = axes[0]
    """
    fig = Figure(figsize=(width, rows * panel_height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(fig)
    axes = fig.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey, width_ratios=width_ratios)
    if letters if letters is not None else rows * columns > 1:
        panel_letters(axes.ravel())
    return fig, axes


def panel_letters(axes: Iterable[Axes]) -> None:
    """Letter the panels; uses the left title, so titles of panels stay centred."""
    for letter, axis in zip(string.ascii_lowercase, axes, strict=False):
        axis.set_title(letter, loc="left", fontweight="bold")


def sequential_colours(values: Iterable[T], *, colormap: str = "viridis") -> dict[T, str]:
    """A colour for each value of an ordered parameter (depths, widths), dark to light in ascending order."""
    ordered = sorted(set(values))
    shades = matplotlib.colormaps[colormap](np.linspace(0.0, 0.88, max(len(ordered), 2)))
    return {value: to_hex(shade) for value, shade in zip(ordered, shades, strict=False)}


def category_colours(names: Iterable[str]) -> dict[str, str]:
    """A colour of the palette for each name, in the order given; beyond the palette's length colours repeat."""
    return {name: PALETTE[index % len(PALETTE)] for index, name in enumerate(dict.fromkeys(names))}


def legend_outside(
    owner: Axes | Figure,
    *,
    where: Literal["right", "below", "above"] = "right",
    title: str | None = None,
    columns: int | None = None,
    **options: Any,
) -> Legend:
    """A legend beside the panels instead of over the curves; a figure's legend lists each label of its axes once."""
    if "handles" not in options:
        options["handles"] = distinct_handles(owner.axes if isinstance(owner, Figure) else [owner])
    options["ncols"] = columns or (1 if where == "right" else max(len(options["handles"]), 1))
    options["title"] = title
    if isinstance(owner, Figure):
        places = {"right": "outside right center", "below": "outside lower center", "above": "outside upper center"}
        options["loc"] = places[where]
    else:
        options["loc"], options["bbox_to_anchor"] = {
            "right": ("center left", (1.02, 0.5)),
            "below": ("upper center", (0.5, -0.18)),
            "above": ("lower center", (0.5, 1.08)),
        }[where]
    return owner.legend(**options)


def distinct_handles(axes: Iterable[Axes]) -> list[Any]:
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    return list(handles.values())


SPEAKING_POWERS = 1
"""Where an axis shows no more powers of its base than this, its minor ticks are labelled too."""


def log_axis(axis: Axes, *which: Literal["x", "y"], base: float = 10.0) -> None:
    """Logarithmic axes with at most eight labelled powers; minor ticks speak only where at most one power is seen."""
    for name in which:
        scaled = {"x": axis.xaxis, "y": axis.yaxis}[name]
        {"x": axis.set_xscale, "y": axis.set_yscale}[name]("log", base=base)
        scaled.set_major_locator(LogLocator(base=base, numticks=8))
        scaled.set_major_formatter(PowerFormatter(base=base))
        scaled.set_minor_formatter(
            PlainLogFormatter(base=base, labelOnlyBase=False, minor_thresholds=(SPEAKING_POWERS, 0.4))
        )


class PowerFormatter(LogFormatterSciNotation):
    """10^-1, but 0.1 where plain numbers stand beside it."""

    def __init__(self, base: float) -> None:
        super().__init__(base=base)
        self.power = base

    def __call__(self, x: float, pos: int | None = None) -> str:
        if x <= 0 or self.axis is None:
            return str(super().__call__(x, pos))
        low, high = sorted(self.axis.get_view_interval())
        plain = low > 0 and powers_between(low, high, self.power) <= SPEAKING_POWERS
        return f"{x:g}" if plain else str(super().__call__(x, pos))


def powers_between(low: float, high: float, base: float) -> int:
    """How many powers of the base are seen, counted as matplotlib does to decide whether minor ticks get labels."""
    return math.floor(math.log(high, base)) - math.floor(math.nextafter(math.log(low, base), -math.inf))


class PlainLogFormatter(LogFormatter):
    """Labels where matplotlib would put them, written as 0.3 and not as 3e-01."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


def value_ticks(axis: Axes, which: Literal["x", "y"], values: Iterable[float]) -> None:
    """Ticks at exactly these values, written plainly; for few settings on a logarithmic axis (widths, depths)."""
    values = sorted(set(values))
    scaled = {"x": axis.xaxis, "y": axis.yaxis}[which]
    scaled.set_ticks(values, labels=[f"{value:g}" for value in values])
    scaled.set_ticks([], minor=True)


def paper_line(axis: Axes, value: float, *, along: Literal["x", "y"] = "y", label: str | None = None) -> None:
    """A dashed line at a number that the paper prints (`along`: the axis the number is read on)."""
    draw = {"y": axis.axhline, "x": axis.axvline}[along]
    draw(value, color=PAPER, linestyle="--", linewidth=1.1, zorder=1.5, label=label)


def note(axis: Axes, text: str, at: tuple[float, float], *, corner: str = "upper left", **options: Any) -> None:
    """A small text in axes coordinates on a veil of white, so that grid lines do not cross it."""
    vertical, horizontal = corner.split()
    veil = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 2.0}
    settings: dict[str, Any] = {
        "transform": axis.transAxes,
        "ha": horizontal,
        "va": {"upper": "top", "lower": "bottom"}.get(vertical, vertical),
        "fontsize": 9,
        "bbox": veil,
    }
    axis.text(*at, text, **{**settings, **options})
