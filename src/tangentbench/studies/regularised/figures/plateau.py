"""Figure 5.2: train and test loss against the width, with the plateau's start as the code finds it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tangentbench.studies.registry import figure
from tangentbench.studies.style import (
    BLUE,
    PAPER,
    VERMILION,
    figure_grid,
    legend_outside,
    log_axis,
    paper_line,
    value_ticks,
)

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

_TITLES = {"mnist": "digits, cross-entropy", "teacher": "teacher, squared error"}
_COLOURS = (BLUE, VERMILION)
_TICK_RATIO = 1.22


@figure("regularised_fig5_2")
def loss_against_width(table: pd.DataFrame, artifact: Artifact) -> Figure:
    panels = [name for name in _TITLES if name in set(table["panel"])]
    fig, axes = figure_grid(1, len(panels), panel_height=4.0)
    tolerance = artifact.settings["plateau_tolerance"]
    for axis, name in zip(axes[0], panels, strict=True):
        own = table[table["panel"] == name]
        _draw_curves(axis, own, tolerance)
        paper_line(axis, _paper_start(artifact, name), along="x")
        log_axis(axis, "x", "y")
        value_ticks(axis, "x", _far_apart(own["width"].dropna().astype(int).unique()))
        axis.set_title(_TITLES[name])
        axis.set_xlabel("width of the hidden layers")
        axis.set_ylabel("loss")
    handles = [
        Line2D([], [], color="black", label="train loss, with the penalty"),
        Line2D([], [], color="black", linestyle=(0, (4, 2)), label="test loss, without"),
        Line2D([], [], color="black", marker="o", markersize=3, linestyle="none", label="single trials"),
        Line2D([], [], color="black", marker="v", linestyle="none", label=f"plateau (within {tolerance:.0%}) starts"),
        Line2D([], [], color=PAPER, linestyle="--", linewidth=1.1, label="start the paper reads off"),
    ]
    legend_outside(fig, where="below", columns=3, handles=handles)
    return fig


def _far_apart(widths: Iterable[int]) -> list[int]:
    """Those that can be labelled side by side on a logarithmic axis, from the smallest on."""
    kept: list[int] = []
    for width in sorted(widths):
        if not kept or width >= _TICK_RATIO * kept[-1]:
            kept.append(width)
    return kept


def _paper_start(artifact: Artifact, panel: str) -> float:
    fitting = [value.value for value in artifact.paper_values if (value.measure or {})["where"]["panel"] == panel]
    return float(fitting[0])


def _draw_curves(axis: Axes, table: pd.DataFrame, tolerance: float) -> None:
    trained = table[table["tolerance"].isna()]
    for colour, penalty in zip(_COLOURS, sorted(trained["penalty"].unique()), strict=False):
        runs = trained[trained["penalty"] == penalty]
        best = runs[runs["chosen"].astype(bool)].sort_values("width")
        axis.plot(best["width"], best["train_loss"], color=colour)
        axis.plot(best["width"], best["test_loss"], color=colour, linestyle=(0, (4, 2)))
        if runs["trial"].nunique() > 1:
            axis.scatter(runs["width"], runs["train_loss"], color=colour, s=11, zorder=3)
        found = table[(table["penalty"] == penalty) & (table["tolerance"] == tolerance)]["start"].iloc[0]
        level = float(best.set_index("width").loc[found, "train_loss"])
        axis.plot(found, level, color=colour, marker="v", markersize=9, zorder=4)
        last = best.iloc[-1]
        axis.annotate(
            rf"$\lambda = {_in_powers_of_ten(penalty)}$",
            (last["width"], last["train_loss"]),
            xytext=(0, 6),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=9,
            color=colour,
        )


def _in_powers_of_ten(value: float) -> str:
    """As mathematics: 10^{-6}, or 3 \\cdot 10^{-4} where it is no power of ten."""
    digits, power = f"{value:.0e}".split("e")
    ten = f"10^{{{int(power)}}}"
    return ten if digits == "1" else rf"{digits} \cdot {ten}"
