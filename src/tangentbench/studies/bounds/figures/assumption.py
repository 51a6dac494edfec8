"""Figure 6.7: how far the loss and the projected loss have fallen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tangentbench.studies.registry import figure
from tangentbench.studies.style import PAPER, figure_grid, legend_outside, log_axis, sequential_colours

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact


@figure("bounds_fig6_7")
def projected_loss(table: pd.DataFrame, artifact: Artifact) -> Figure:
    offset = float(table["shown_offset"].iloc[0])
    betas = sorted(table["beta"].unique(), reverse=True)
    colours = sequential_colours(table["epsilon"])
    fig, axes = figure_grid(1, len(betas), width=3.8 * len(betas), panel_height=3.6, sharey=True)
    for axis, beta in zip(axes[0], betas, strict=True):
        rows = table[(table["beta"] == beta) & (table["time"] > 0)]
        for (epsilon, _), own in rows.groupby(["epsilon", "seed"]):
            axis.plot(own["time"], own["loss_fall"] + offset, color=colours[epsilon], linewidth=1.3)
            axis.plot(own["time"], own["projected_fall"] + offset, "--", color=colours[epsilon], linewidth=1.3)
        log_axis(axis, "x", "y")
        axis.set_xlabel("training time $t$")
        axis.set_title(rf"$\beta$ = {beta:g}")
    axes[0, 0].set_ylabel(f"fall since the start + {offset:.0e}")
    handles = [Line2D([], [], color=colour, label=rf"$\epsilon$ = {epsilon:g}") for epsilon, colour in colours.items()]
    handles += [
        Line2D([], [], color=PAPER, label=r"loss $\mathcal{L}(0) - \mathcal{L}(t)$"),
        Line2D([], [], color=PAPER, linestyle="--", label=r"projected loss $\mathcal{L}_X(0) - \mathcal{L}_X(t)$"),
    ]
    legend_outside(fig, where="below", handles=handles, columns=len(handles))
    return fig
