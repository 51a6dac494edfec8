"""Figure 3 (right): sizes of the kernels of values and features during decoupled learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.figure import Figure

from tangentbench.studies.npk.figures.runs import mean_and_range, of
from tangentbench.studies.registry import figure
from tangentbench.studies.style import BLUE, PAPER, VERMILION, figure_grid, legend_outside, log_axis

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

KERNELS = {"K^V": ("$K^V$, of the values", BLUE), "K^F": ("$K^F$, of the features", VERMILION)}


@figure("npk_fig3c")
def value_and_feature_kernels(table: pd.DataFrame, artifact: Artifact) -> Figure:
    fig, axes = figure_grid(1, 3, width=11.0)
    *sizes, apart = axes[0]
    for axis, quantity in zip(sizes, ("trace", "Frobenius norm"), strict=True):
        for kernel, (label, colour) in KERNELS.items():
            rows = of(table, quantity=quantity, kernel=kernel)
            mean_and_range(axis, rows, "epoch", colour=colour, label=label, marker="o", markersize=3.5)
        log_axis(axis, "y")
        axis.set_title(quantity)
    for quantity, style in (("trace", "-"), ("Frobenius norm", "--")):
        rows = of(table, quantity=f"{quantity} apart").assign(value=lambda own: 10 ** own["value"])
        mean_and_range(apart, rows, "epoch", colour="black", label=quantity, linestyle=style)
    apart.axhline(10.0, color=PAPER, linestyle=":")
    apart.annotate("a factor of 10", (0, 10.0), xytext=(2, 3), textcoords="offset points", fontsize=8, color=PAPER)
    apart.set_ylim(0.5, 12.0)
    apart.set_title("larger over smaller")
    for axis in axes[0]:
        axis.set_xlabel("epoch")
    legend_outside(fig, where="below")
    return fig
