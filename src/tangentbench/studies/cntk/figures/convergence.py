"""Theorems 3.1 and 3.2: distance to the exact kernel, and to kernel regression, against width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tangentbench.studies.registry import figure
from tangentbench.studies.style import BLUE, GREEN, PAPER, VERMILION, figure_grid, legend_outside, log_axis, value_ticks

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

NETWORKS = {
    "fc": ("fully connected", BLUE, "o"),
    "cnn_v": ("convolutional", VERMILION, "s"),
    "cnn_gap": ("convolutional, pooled", GREEN, "^"),
}
STYLES: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")


@figure("cntk_convergence")
def convergence(table: pd.DataFrame, artifact: Artifact) -> Figure:
    fig, axes = figure_grid(1, 2, width=10.0, panel_height=3.9)
    before, after = axes[0]
    kernels = table[table["quantity"] == "kernel error"]
    depths = sorted(kernels["depth"].unique())
    for kind, (_, colour, marker) in NETWORKS.items():
        for style, depth in zip(STYLES, depths, strict=False):
            rows = kernels[(kernels["architecture"] == kind) & (kernels["depth"] == depth)]
            _draw(before, rows, colour, marker, style)
        _draw(after, table[(table["quantity"] == "prediction error") & (table["architecture"] == kind)], colour, marker)
    _reference_slope(before, kernels)
    before.set_ylabel(r"$\|H - H^*\|_F \;/\; \|H^*\|_F$")
    before.set_title("random networks (Theorem 3.1)")
    after.set_ylabel("relative distance to the kernel")
    after.set_title("trained networks (Theorem 3.2)")
    for axis, quantity in ((before, "kernel error"), (after, "prediction error")):
        log_axis(axis, "x", base=2)
        log_axis(axis, "y")
        value_ticks(axis, "x", table.loc[table["quantity"] == quantity, "width"])
        axis.set_xlabel("width (units or channels)")
    handles = [Line2D([], [], color=colour, marker=marker, label=label) for label, colour, marker in NETWORKS.values()]
    handles += [
        Line2D([], [], color="#202020", linestyle=style, label=f"depth {depth}")
        for style, depth in zip(STYLES, depths, strict=False)
    ]
    handles.append(Line2D([], [], color=PAPER, linewidth=1.0, linestyle=(0, (1, 1)), label=r"slope $-1/2$"))
    legend_outside(fig, where="below", handles=handles, columns=3)
    return fig


def _draw(axis: Axes, rows: pd.DataFrame, colour: str, marker: str, style: str = "-") -> None:
    """The mean over runs with a band from the least to the largest."""
    if rows.empty:
        return
    grouped = rows.groupby("width")["value"]
    width = np.array(list(grouped.groups), dtype=float)
    axis.fill_between(width, grouped.min(), grouped.max(), color=colour, alpha=0.10, linewidth=0)
    axis.plot(width, grouped.mean(), style, marker=marker, color=colour)


def _reference_slope(axis: Axes, rows: pd.DataFrame) -> None:
    """A line of slope -1/2 through the mean of the narrowest networks."""
    widths = np.array(sorted(rows["width"].unique()), dtype=float)
    start = rows.loc[rows["width"] == widths[0], "value"].mean()
    axis.plot(widths, start * np.sqrt(widths[0] / widths), linestyle=(0, (1, 1)), color=PAPER, linewidth=1.0)
