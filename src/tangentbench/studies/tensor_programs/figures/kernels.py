"""Figures A.1 to A.3: distances of kernels from their Gaussian limit against the width, a panel for each network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tangentbench.studies.registry import figure
from tangentbench.studies.style import MARKERS, PAPER, category_colours, figure_grid, legend_outside
from tangentbench.studies.tensor_programs.figures.laws import label_of
from tangentbench.studies.tensor_programs.figures.panels import clear_of_noise, width_axes

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

NETWORKS = {"gru": "GRU", "rnn": "recurrent network", "transformer": "transformer"}


@figure("tensor_programs_figA_1")
@figure("tensor_programs_figA_2")
def output_kernels(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return panels(table, "kernel of the states")


@figure("tensor_programs_figA_3")
def tangent_kernels(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return panels(table, "tangent kernel")


def panels(table: pd.DataFrame, kernel: str) -> Figure:
    architectures = list(dict.fromkeys(table["architecture"]))
    laws = list(dict.fromkeys(table.loc[table["quantity"] == "distance", "law"]))
    colours = category_colours(laws)
    fig, axes = figure_grid(1, len(architectures), width=4.9 * len(architectures), panel_height=4.0, sharey=True)
    for axis, architecture in zip(axes[0], architectures, strict=True):
        rows = table[table["architecture"] == architecture]
        curves = rows[rows["quantity"] == "distance"]
        for law, marker in zip(laws, MARKERS, strict=False):
            draw_law(axis, curves[curves["law"] == law], colours[law], label_of(law), marker)
        width_axes(axis, curves["width"])
        draw_rate(axis, curves)
        for law in laws:
            shifts = rows.loc[(rows["quantity"] == "limit shift") & (rows["law"] == law), "value"].astype(float)
            draw_shift(axis, shifts, colours[law])
        axis.set_title(f"{NETWORKS[architecture]}, {kernel}")
    axes[0, 0].set_ylabel(r"$\|K_n - K\|_F\ /\ \|K\|_F$,  $K$ Gaussian limit")
    legend_outside(fig, where="below", columns=4)
    return fig


def draw_law(axis: Axes, rows: pd.DataFrame, colour: str, label: str, marker: str) -> None:
    """Mean over the starts and a band of one standard deviation, as in the thesis; the band ends above zero."""
    grouped = rows.groupby("width")["value"]
    mean, spread = grouped.mean(), grouped.std()
    widths = mean.index.to_numpy(dtype=float)
    low = np.maximum(mean - spread, 0.35 * mean)
    axis.fill_between(widths, low, mean + spread, color=colour, alpha=0.1, linewidth=0)
    axis.plot(widths, mean, color=colour, marker=marker, label=label)


def draw_rate(axis: Axes, rows: pd.DataFrame) -> None:
    """A dashed line of slope -1/2 below the curves."""
    means = rows.groupby(["law", "width"])["value"].mean()
    ends = np.array([rows["width"].min(), rows["width"].max()], dtype=float)
    start = 0.62 * float(means.xs(ends[0], level="width").min())
    line = start * (ends / ends[0]) ** -0.5
    axis.plot(ends, line, color=PAPER, linestyle="--", linewidth=1.1, label="rate $n^{-1/2}$")


def draw_shift(axis: Axes, shifts: pd.Series, colour: str) -> None:
    """How far a law's own limit lies from the Gaussian one, where it does."""
    shift = clear_of_noise(shifts)
    if shift is None:
        return
    label = "limit of the law, infinite width"
    axis.axhline(shift, color=colour, linestyle=":", linewidth=1.3)
    if label not in axis.get_legend_handles_labels()[1]:
        axis.plot([], [], color=PAPER, linestyle=":", linewidth=1.3, label=label)
