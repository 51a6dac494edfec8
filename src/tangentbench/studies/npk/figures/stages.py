"""Figure 3 (left): accuracy with gates from successive stages of training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.figure import Figure

from tangentbench.studies.npk.figures.runs import mean_and_range, of
from tangentbench.studies.registry import figure
from tangentbench.studies.style import BLUE, GREEN, ORANGE, PURPLE, figure_grid, legend_outside, paper_line

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

_LINES = {"ReLU": ("ReLU network the gates come from", GREEN), "FRNPF": ("FRNPF, random gates", ORANGE)}
_PRINTED_CNTK = "CNTK-GAP"
"""The label of the exact kernel's accuracy among the printed values."""


@figure("npk_fig3a")
def gates_of_stages(table: pd.DataFrame, artifact: Artifact) -> Figure:
    fig, axes = figure_grid(1, 2, sharey=True)
    (cntk,) = (printed.value for printed in artifact.paper_values if printed.label == _PRINTED_CNTK)
    for axis, which, title in zip(axes[0], ("best", "last"), ("best epoch, as printed", "last epoch"), strict=True):
        rows = of(table, quantity=f"{which} test accuracy")
        mean_and_range(axis, of(rows, network="FLNPF"), "stage", colour=BLUE, label="FLNPF, copied gates", marker="o")
        for network, (label, colour) in _LINES.items():
            axis.axhline(of(rows, network=network)["value"].mean(), color=colour, linestyle="-.", label=label)
        exact = of(rows, network="CNTK")
        if len(exact):
            label = f"exact CNTK, ours, on {exact['images'].iloc[0]:,} images"
            axis.axhline(exact["value"].mean(), color=PURPLE, linestyle=":", label=label)
        epochs = of(rows, network="FLNPF").drop_duplicates("stage").sort_values("stage")
        labels = [f"{stage}\n(epoch {epoch})" for stage, epoch in zip(epochs["stage"], epochs["epoch"], strict=True)]
        axis.set_xticks(epochs["stage"].to_numpy(dtype=float), labels, fontsize=7)
        axis.set_title(title)
        axis.set_xlabel("stage of training the gates are taken from")
        paper_line(axis, cntk, label=f"exact CNTK, as printed for the whole CIFAR-10 ({cntk:g} %)")
    axes[0, 0].set_ylabel("test accuracy (%)")
    legend_outside(fig, where="below", columns=2)
    return fig
