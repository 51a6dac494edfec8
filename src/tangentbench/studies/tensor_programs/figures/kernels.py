"""Figures A.1 to A.3: distances of kernels from their Gaussian limit against the width, a panel for each network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tangentbench.studies.registry import figure
from tangentbench.studies.style import PAPER, legend_outside
from tangentbench.studies.tensor_programs.figures.panels import (
    CurveStyle,
    clear_of_noise,
    panel_row,
    styles_of,
    width_axes,
)

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

_NETWORKS = {"gru": "GRU", "rnn": "recurrent network", "transformer": "transformer"}


@figure("tensor_programs_figA_1")
@figure("tensor_programs_figA_2")
def output_kernels(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return _panels(table, "kernel of the states")


@figure("tensor_programs_figA_3")
def tangent_kernels(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return _panels(table, "tangent kernel")


def _panels(table: pd.DataFrame, kernel: str) -> Figure:
    styles = styles_of(table[table["quantity"] == "distance"])

    def draw(axis: Axes, architecture: str) -> None:
        rows = table[table["architecture"] == architecture]
        curves = rows[rows["quantity"] == "distance"]
        for name, style in styles.items():
            _draw_curve(axis, curves[curves["law"] == name], style)
        width_axes(axis, curves["width"])
        _draw_rate(axis, curves)
        for name, style in styles.items():
            shifts = rows.loc[(rows["quantity"] == "limit shift") & (rows["law"] == name), "value"].astype(float)
            _draw_shift(axis, shifts, style.colour)
        axis.set_title(f"{_NETWORKS[architecture]}, {kernel}")

    ylabel = r"$\|K_n - K\|_F\ /\ \|K\|_F$,  $K$ Gaussian limit"
    fig = panel_row(list(dict.fromkeys(table["architecture"])), (4.9, 4.0), ylabel, draw)
    legend_outside(fig, where="below", columns=4)
    return fig


def _draw_curve(axis: Axes, rows: pd.DataFrame, style: CurveStyle) -> None:
    """Mean over the starts and a band of one standard deviation, as in the thesis; the band ends above zero."""
    grouped = rows.groupby("width")["value"]
    mean, spread = grouped.mean(), grouped.std()
    widths = mean.index.to_numpy(dtype=float)
    low = np.maximum(mean - spread, 0.35 * mean)
    axis.fill_between(widths, low, mean + spread, color=style.colour, alpha=0.1, linewidth=0)
    axis.plot(widths, mean, color=style.colour, marker=style.marker, label=style.label)


def _draw_rate(axis: Axes, rows: pd.DataFrame) -> None:
    """A dashed line of slope -1/2 below the curves."""
    means = rows.groupby(["law", "width"])["value"].mean()
    ends = np.array([rows["width"].min(), rows["width"].max()], dtype=float)
    start = 0.62 * float(means.xs(ends[0], level="width").min())
    line = start * (ends / ends[0]) ** -0.5
    axis.plot(ends, line, color=PAPER, linestyle="--", linewidth=1.1, label="rate $n^{-1/2}$")


def _draw_shift(axis: Axes, shifts: pd.Series, colour: str) -> None:
    """How far a distribution's own limit is from the Gaussian one, where it differs."""
    shift = clear_of_noise(shifts)
    if shift is None:
        return
    label = "limit of the distribution, infinite width"
    axis.axhline(shift, color=colour, linestyle=":", linewidth=1.3)
    if label not in axis.get_legend_handles_labels()[1]:
        axis.plot([], [], color=PAPER, linestyle=":", linewidth=1.3, label=label)
