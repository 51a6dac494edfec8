"""Figures 6.1 to 6.6: the bound over training time, a panel for each setting compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tangentbench.studies.registry import figure
from tangentbench.studies.style import BLACK, PAPER, figure_grid, legend_outside, note, sequential_colours

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

_RANDOM_GUESS = 0.5
_TOP = 1.25
"""Where the axis of risks ends; a bound above one says nothing."""
_WIDE = 8.5
"""Inches from which on the legend fits into one row."""
_TEST, _TRAIN = BLACK, "#7F7F7F"


@figure("bounds_fig6_1")
def shrinking_initialisation(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return _panels(table, "beta", r"$\beta$ = {:g}".format)


@figure("bounds_fig6_2")
def orders(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return _panels(table, "kappa", r"$\kappa$ = {}".format)


@figure("bounds_fig6_5")
def image_sizes(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return _panels(table, "side", lambda side: rf"{side}$\times${side} pixels")


@figure("bounds_fig6_6")
def depths(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return _panels(table, "depth", "$L$ = {}".format)


@figure("bounds_fig6_3")
def ranks_and_precisions(table: pd.DataFrame, artifact: Artifact) -> Figure:
    layers, precisions = sorted(table["input_layer"].unique()), sorted(table["precision"].unique(), reverse=True)
    fig, axes = figure_grid(len(layers), len(precisions), width=9.0, sharey=True, panel_height=3.2)
    for row, layer in enumerate(layers):
        for column, precision in enumerate(precisions):
            own = table[(table["input_layer"] == layer) & (table["precision"] == precision)]
            _draw_panel(axes[row, column], own, f"{layer.replace('_', ' ')} input layer, $p$ = {precision}")
    _label_and_legend(fig, axes, table)
    return fig


@figure("bounds_fig6_4")
def components(table: pd.DataFrame, artifact: Artifact) -> Figure:
    shown = {
        "whole bound": ("margin_risk", "upsilon", "deviation"),
        r"without the gap $\Upsilon_\kappa$": ("margin_risk", "deviation"),
        r"without the deviation $\Delta_\kappa\epsilon^\kappa/\gamma$": ("margin_risk", "upsilon"),
    }
    fig, axes = figure_grid(1, len(shown), width=12.0, sharey=True)
    for axis, (title, parts) in zip(axes[0], shown.items(), strict=True):
        _draw_panel(axis, table, title, parts)
    _label_and_legend(fig, axes, table)
    return fig


def _panels(table: pd.DataFrame, varied: str, title: Callable[..., str]) -> Figure:
    """One panel for each value of the column that varies, in descending order for beta, ascending otherwise."""
    values = sorted(table[varied].unique(), reverse=varied == "beta")
    fig, axes = figure_grid(1, len(values), width=max(3.4 * len(values), 8.0), sharey=True, panel_height=3.6)
    for axis, value in zip(axes[0], values, strict=True):
        _draw_panel(axis, table[table[varied] == value], title(value))
    _label_and_legend(fig, axes, table)
    return fig


def _draw_panel(
    axis: Axes,
    rows: pd.DataFrame,
    title: str,
    parts: Sequence[str] = ("margin_risk", "upsilon", "deviation"),
) -> None:
    """Bound (solid) and train margin risk (dashed) for each q, test risk, random guess; the mean over runs."""
    rows = rows[rows["time"] > 0]
    colours = sequential_colours(rows["q"])
    smallest = np.inf
    for q, own in rows.groupby("q"):
        curve = own.groupby("time")[["margin_risk", "upsilon", "deviation"]].mean()
        total = curve[list(parts)].sum(axis=1)
        smallest = min(smallest, float(total.min()))
        visible = total.where(total <= 2 * _TOP)
        axis.plot(visible.index.to_numpy(), visible.to_numpy(), color=colours[q])
        axis.plot(curve.index.to_numpy(), curve["margin_risk"].to_numpy(), "--", color=colours[q], linewidth=1.1)
    risk = rows.groupby("time")[["test_risk", "train_risk"]].mean()
    axis.plot(risk.index.to_numpy(), risk["train_risk"].to_numpy(), color=_TRAIN, linewidth=1.2)
    axis.plot(risk.index.to_numpy(), risk["test_risk"].to_numpy(), color=_TEST, linewidth=1.4)
    axis.axhline(_RANDOM_GUESS, color=PAPER, linestyle=":", linewidth=1.2)
    axis.set_xscale("log")
    axis.set_ylim(0.0, _TOP)
    axis.set_title(title, fontsize=10)
    note(axis, f"smallest {smallest:.3f}", (0.03, 0.03), corner="lower left")


def _label_and_legend(fig: Figure, axes: np.ndarray, table: pd.DataFrame) -> None:
    for axis in axes[-1]:
        axis.set_xlabel("training time $t$")
    for axis in axes[:, 0]:
        axis.set_ylabel("risk and bound")
    depth = table["depth"].unique()
    power = f"{depth[0]}" if len(depth) == 1 else "L"
    handles = [
        Line2D([], [], color=colour, label=rf"$\gamma = \beta^{power}$" + (f"/{q:g}" if q != 1 else ""))
        for q, colour in sequential_colours(table["q"]).items()
    ]
    handles += [
        Line2D([], [], color=PAPER, label="bound"),
        Line2D([], [], color=PAPER, linestyle="--", linewidth=1.1, label="train margin risk"),
        Line2D([], [], color=_TRAIN, linewidth=1.2, label="train risk"),
        Line2D([], [], color=_TEST, linewidth=1.4, label="test risk"),
        Line2D([], [], color=PAPER, linestyle=":", linewidth=1.2, label="random guess"),
    ]
    columns = len(handles) if fig.get_figwidth() > _WIDE else len(handles) // 2
    legend_outside(fig, where="below", columns=columns, handles=handles, columnspacing=1.2, handlelength=1.6)
