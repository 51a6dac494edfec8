"""Figure 3 (middle): the labels' fit to the path kernel against the epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.figure import Figure

from tangentbench.studies.npk.figures.runs import mean_and_range, of
from tangentbench.studies.registry import figure
from tangentbench.studies.style import BLUE, GREEN, VERMILION, figure_grid

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

PANELS = (
    ("nu", r"$\nu_t = y^\top H_t^{-1} y$, trace of $H_t$ one", BLUE),
    ("nu over start", r"$\nu_t / \nu_0$", GREEN),
    ("test accuracy", "test accuracy (%)", VERMILION),
)


@figure("npk_fig3b")
def label_alignment(table: pd.DataFrame, artifact: Artifact) -> Figure:
    fig, axes = figure_grid(1, len(PANELS), width=11.0)
    for axis, (quantity, title, colour) in zip(axes[0], PANELS, strict=True):
        rows = of(table, quantity=quantity)
        for _, run in rows.groupby("seed"):
            axis.plot(run["epoch"], run["value"], color=colour, linewidth=0.7, alpha=0.45)
        mean_and_range(axis, rows, "epoch", colour=colour, label=None)
        axis.set_title(title)
        axis.set_xlabel("epoch")
    return fig
