"""Our own figure: steps of gradient descent against depth and against what the condition number predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tangentbench.studies.conditioning.figures.depth import colour_of, short
from tangentbench.studies.registry import figure
from tangentbench.studies.style import MARKERS, PAPER, figure_grid, legend_outside, log_axis, value_ticks

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

MODES = (("top layer", "Only the top layer learns"), ("all layers", "All layers learn"))


@figure("conditioning_training")
def draw_steps(table: pd.DataFrame, artifact: Artifact) -> Figure:
    fig, axes = figure_grid(2, 2, panel_height=3.6, sharey=True)
    names = list(table["activation"].unique())
    signs = dict(zip(names, MARKERS, strict=False))
    for column, (mode, title) in enumerate(MODES):
        rows = table[table["mode"] == mode]
        _draw_by_depth(axes[0, column], rows, signs)
        axes[0, column].set_title(title)
        _draw_against_prediction(axes[1, column], rows, signs)
    for axis in axes[:, 0]:
        axis.set_ylabel("steps to 1 % of the first error" if artifact.settings.get("loss_ratio") == 0.01 else "steps")
    labels = table.drop_duplicates("activation").set_index("activation")["label"]
    handles = [
        Line2D([], [], color=colour_of(name), marker=signs[name], label=short(str(labels[name]))) for name in names
    ]
    styles = [
        Line2D([], [], color=PAPER, label="infinite width"),
        Line2D([], [], color=PAPER, linestyle="none", marker="o", mfc="none", label="finite network"),
        Line2D([], [], color=PAPER, linestyle="--", linewidth=1.1, label="condition number"),
    ]
    legend_outside(fig, where="below", columns=4, handles=[*handles, *styles])
    return fig


def _draw_by_depth(axis: Axes, rows: pd.DataFrame, signs: dict[str, str]) -> None:
    for name, sign in signs.items():
        ours = rows[rows["activation"] == name]
        colour = colour_of(name)
        infinite = _pick(ours, "kernel", "steps").groupby("depth")["value"].mean()
        axis.plot(infinite.index, infinite, color=colour)
        predicted = _pick(ours, "kernel", "predicted").set_index("depth")["value"].clip(lower=1.0)
        axis.plot(predicted.index, predicted, color=colour, linestyle="--", linewidth=1.1)
        finite = _pick(ours, "network", "steps")
        axis.plot(finite["depth"], finite["value"], sign, color=colour, mfc="none", markersize=5.5)
    log_axis(axis, "y")
    log_axis(axis, "x", base=2.0)
    value_ticks(axis, "x", rows["depth"].unique())
    axis.set_xlabel("hidden layers $L$")


def _draw_against_prediction(axis: Axes, rows: pd.DataFrame, signs: dict[str, str]) -> None:
    for name, sign in signs.items():
        ours = rows[rows["activation"] == name]
        colour = colour_of(name)
        finite = _pick(ours, "network", "steps")
        axis.plot(finite["predicted_steps"].clip(lower=1.0), finite["value"], sign, color=colour, mfc="none")
        infinite = _pick(ours, "kernel", "steps").groupby("predicted_steps")["value"].mean()
        axis.plot(infinite.index.to_series().clip(lower=1.0), infinite, color=colour)
    ends = [1.0, float(rows["predicted_steps"].max()) * 1.3]
    axis.plot(ends, ends, color=PAPER, linestyle="--", linewidth=1.1)
    log_axis(axis, "x", "y")
    axis.set_xlabel("steps that the condition number allows for")


def _pick(rows: pd.DataFrame, method: str, quantity: str) -> pd.DataFrame:
    return rows[(rows["method"] == method) & (rows["quantity"] == quantity)].dropna(subset=["value"])
