"""Table 2 as a picture: one panel per row, our five columns with their runs, and the paper's numbers beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tangentbench.studies.npk.figures.runs import of
from tangentbench.studies.registry import figure
from tangentbench.studies.style import PAPER, category_colours, figure_grid, legend_outside

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

COLUMNS = {
    "frnpf_ii": "FRNPF\n(II)",
    "frnpf_di": "FRNPF\n(DI)",
    "dnpfl": "DNPFL",
    "flnpf": "FLNPF",
    "relu": "ReLU",
}
BEST, LAST, VALIDATED = "best test accuracy", "last test accuracy", "validated test accuracy"


@figure("npk_table2")
def accuracies(table: pd.DataFrame, artifact: Artifact) -> Figure:
    rows = list(dict.fromkeys(table["row"]))
    across = min(len(rows), 2)
    fig, axes = figure_grid(-(-len(rows) // across), across, panel_height=2.7)
    colours = category_colours(COLUMNS)
    for axis, row in zip(axes.ravel(), rows, strict=False):
        draw_row(axis, of(table, row=row), colours)
        draw_paper(axis, row, artifact)
        architecture, optimiser = row.split("_")
        axis.set_title(f"{architecture.upper()}, {'SGD' if optimiser == 'sgd' else 'Adam'}")
        axis.set_xticks(range(len(COLUMNS)), list(COLUMNS.values()), fontsize=8)
        axis.set_ylabel("test accuracy (%)")
    for axis in axes.ravel()[len(rows) :]:
        axis.set_axis_off()
    handles = [
        Line2D([], [], color="black", marker="o", label="best epoch: mean and standard deviation over runs"),
        Line2D([], [], color="black", marker="x", linestyle="none", label="last epoch"),
        Line2D(
            *([], []),
            color="black",
            marker="D",
            markersize=4,
            markerfacecolor="none",
            linestyle="none",
            label="learning rate and epoch chosen on held-out training images",
        ),
        Line2D([], [], color=PAPER, marker="_", markersize=12, linestyle="none", label="the paper, on the whole data"),
    ]
    legend_outside(fig, where="below", handles=handles, columns=2)
    return fig


def draw_row(axis: Axes, table: pd.DataFrame, colours: dict[str, str]) -> None:
    for place, (column, colour) in enumerate(colours.items()):
        best = of(table, column=column, quantity=BEST)["value"]
        if best.empty:
            continue
        spread = best.std(ddof=1) if len(best) > 1 else 0.0
        axis.errorbar(place, best.mean(), yerr=spread, color=colour, marker="o", linewidth=1.5)
        axis.annotate(f"{best.mean():.1f}", (place, best.mean()), xytext=(6, 2), textcoords="offset points", fontsize=8)
        axis.plot(place, of(table, column=column, quantity=LAST)["value"].mean(), color=colour, marker="x")
        validated = of(table, column=column, quantity=VALIDATED)["value"]
        if len(validated):
            axis.plot(place - 0.18, validated.mean(), color=colour, marker="D", markersize=4, markerfacecolor="none")
    axis.set_xlim(-0.5, len(COLUMNS) - 0.25)


def draw_paper(axis: Axes, row: str, artifact: Artifact) -> None:
    for value in artifact.paper_values:
        where = (value.measure or {}).get("where", {})
        if where.get("row") == row and where.get("column") in COLUMNS:
            place = list(COLUMNS).index(where["column"])
            axis.plot(place, value.value, color=PAPER, marker="_", markersize=12)
