"""Theorem 5.1 and its corollary: errors and variances against width and padding on logarithmic axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tangentbench.studies.npk.figures.runs import mean_and_range, of
from tangentbench.studies.registry import figure
from tangentbench.studies.style import PAPER, figure_grid, legend_outside, log_axis, sequential_colours, value_ticks

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

PANELS = (
    ("width", "relative error", "width $w$", r"$\|K_0 - d\sigma^{2(d-1)}H\|_F$, relative", -0.5),
    ("width", "entry variance", "width $w$", "variance of an entry of $K_0$", -1.0),
    ("padding", "relative error", "times $m$ the gates are repeated", "relative error of DGN$^{(m)}$", -0.5),
)


@figure("npk_theorem5_1")
def frozen_gates(table: pd.DataFrame, artifact: Artifact) -> Figure:
    fig, axes = figure_grid(1, len(PANELS), width=11.0)
    colours = sequential_colours(int(depth) for depth in table["depth"])
    for axis, (varied, quantity, below, aside, rate) in zip(axes[0], PANELS, strict=True):
        rows = of(table, varied=varied, quantity=quantity)
        for depth, colour in colours.items():
            own = of(rows, depth=depth)
            mean_and_range(axis, own, "axis", colour=colour, label=f"depth {depth}", marker="o")
        log_axis(axis, "x", base=2)
        log_axis(axis, "y")
        draw_rate(axis, rows, rate)
        value_ticks(axis, "x", rows["axis"])
        axis.tick_params(axis="x", labelsize=8)
        axis.set_xlabel(below)
        axis.set_title(aside, fontsize=10)
    legend_outside(fig, where="below")
    return fig


def draw_rate(axis: Axes, rows: pd.DataFrame, rate: float) -> None:
    """A dotted line of the theorem's rate below the curves."""
    ends = np.array([rows["axis"].min(), rows["axis"].max()], dtype=float)
    start = 0.6 * rows.groupby(["depth", "axis"])["value"].mean().xs(ends[0], level="axis").min()
    text = {-0.5: "rate $-1/2$", -1.0: "rate $-1$"}[rate]
    line = start * (ends / ends[0]) ** rate
    axis.plot(ends, line, color=PAPER, linestyle=":", label="the theorem's rate")
    axis.annotate(text, (ends[0], line[0]), xytext=(0, -22), textcoords="offset points", fontsize=8, color=PAPER)
