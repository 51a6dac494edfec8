"""Tables 1 and 2 as charts: ours against the paper's numbers over depth, one panel per column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tangentbench.studies.registry import figure
from tangentbench.studies.style import BLUE, GREEN, ORANGE, PAPER, PURPLE, SKY, VERMILION, figure_grid, legend_outside

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

CHANCE = "#B0B0B0"
TABLE1 = {
    "cnn_v": ("CNN-V", PURPLE),
    "cntk_v": ("CNTK-V", BLUE),
    "cntk_v_2k": ("CNTK-V-2K", SKY),
    "cnn_gap": ("CNN-GAP", ORANGE),
    "cntk_gap": ("CNTK-GAP", VERMILION),
    "cntk_gap_2k": ("CNTK-GAP-2K", GREEN),
}
TABLE2 = {
    "rf_v": ("random features, vanilla", SKY),
    "cntk_v": ("exact CNTK, vanilla", BLUE),
    "rf_gap": ("random features, GAP", ORANGE),
    "cntk_gap": ("exact CNTK, GAP", VERMILION),
}
DEPTHS = (3, 4, 6, 11, 21)


@figure("cntk_table1")
def ten_classes(table: pd.DataFrame, artifact: Artifact) -> Figure:
    names = [name for name in TABLE1 if name in set(table["column"])]
    fig, axes = figure_grid(2, 3, width=10.5, panel_height=2.9, sharey=True)
    for axis, name in zip(axes.ravel(), TABLE1, strict=True):
        _draw_column(axis, table[table["column"] == name], _printed(artifact, name), *TABLE1[name])
        if name not in names:
            _say_not_run(axis)
    _finish(fig, axes, classes=10)
    return fig


@figure("cntk_vanilla_full")
def vanilla_on_all_images(table: pd.DataFrame, artifact: Artifact) -> Figure:
    fig, axes = figure_grid(1, 1, width=6.5, panel_height=3.6)
    count = int(table["train_images"].max())
    title = f"CNTK-V, {count:,} training images"
    _draw_column(axes[0, 0], table, _printed(artifact, "cntk_v"), title, BLUE, sizes=False)
    _finish(fig, axes, classes=10)
    return fig


@figure("cntk_table2")
def two_classes(table: pd.DataFrame, artifact: Artifact) -> Figure:
    fig, axes = figure_grid(2, 2, width=9.0, panel_height=2.9, sharey=True)
    for axis, name in zip(axes.ravel(), TABLE2, strict=True):
        rows = table[(table["column"] == name) & (table["quantity"] == "accuracy")]
        numbers = _printed(artifact, name)
        if name.startswith("rf"):
            _draw_column(axis, rows, numbers, *TABLE2[name], middle="median")
            continue
        largest = rows[rows["images"] == "all"]
        _draw_column(axis, largest, numbers, *TABLE2[name])
        fewer = rows[(rows["images"] == "compared") & (rows["train_images"] < largest["train_images"].max())]
        if len(fewer):
            fewer = fewer.sort_values("depth")
            axis.plot(_positions(fewer["depth"]), fewer["value"], ":", marker="o", markersize=4, color=TABLE2[name][1])
            last = fewer.iloc[-1]
            axis.annotate(
                f"{int(last['train_images']):,} images",
                (_positions([last["depth"]])[0], last["value"]),
                xytext=(4, -11),
                textcoords="offset points",
                fontsize=8,
                color=TABLE2[name][1],
            )
    _finish(fig, axes, classes=2)
    return fig


def _printed(artifact: Artifact, column: str) -> dict[int, float]:
    """The paper's numbers for a column, by depth."""
    wheres = [(value, (value.measure or {}).get("where", {})) for value in artifact.paper_values]
    return {int(where["depth"]): value.value for value, where in wheres if where.get("column") == column}


def _positions(depths: Sequence[int] | pd.Series) -> np.ndarray:
    """Depths at equal distances, as the rows of a table."""
    return np.array([DEPTHS.index(int(depth)) if int(depth) in DEPTHS else np.nan for depth in depths])


def _draw_column(
    axis: Axes,
    rows: pd.DataFrame,
    numbers: Mapping[int, float],
    title: str,
    colour: str,
    *,
    middle: str = "mean",
    sizes: bool = True,
) -> None:
    """Ours as a line through the mean or median over seeds, with every seed as a dot; the paper's as diamonds."""
    axis.plot(
        _positions(list(numbers)), list(numbers.values()), "D--", color=PAPER, markersize=5, linewidth=1.0, mfc="white"
    )
    if len(rows):
        grouped = rows.groupby("depth")["value"]
        ours = grouped.median() if middle == "median" else grouped.mean()
        axis.plot(_positions(list(ours.index)), ours.to_numpy(), "-", marker="o", color=colour)
        if grouped.size().max() > 1:
            spread = rows.sort_values("depth")
            axis.plot(_positions(spread["depth"]), spread["value"], ".", color=colour, alpha=0.45, markersize=5)
        if sizes:
            trained, tested = (int(rows[name].max()) for name in ("train_images", "test_images"))
            title += f"\n{trained:,} train, {tested:,} test images"
    axis.set_title(title, fontsize=10)


def _say_not_run(axis: Axes) -> None:
    axis.text(0.5, 0.12, "not run at this scale", transform=axis.transAxes, ha="center", fontsize=9, color=PAPER)


def _finish(fig: Figure, axes: np.ndarray, *, classes: int) -> None:
    for axis in axes.ravel():
        axis.axhline(100 / classes, color=CHANCE, linestyle=":", linewidth=1.2, zorder=1)
        axis.set_xlim(-0.3, len(DEPTHS) - 0.7)
        axis.set_xticks(range(len(DEPTHS)), labels=[str(depth) for depth in DEPTHS])
    for axis in axes[-1]:
        axis.set_xlabel("depth")
    for axis in axes[:, 0]:
        axis.set_ylabel("test accuracy, %")
    paper = f"paper (CIFAR-{classes})"
    handles = [
        Line2D([], [], color="#202020", marker="o", label="ours"),
        Line2D(
            [],
            [],
            color=PAPER,
            marker="D",
            linestyle="--",
            mfc="white",
            linewidth=1.0,
            label=paper,
        ),
        Line2D([], [], color=CHANCE, linestyle=":", label="chance"),
    ]
    legend_outside(fig, where="below", handles=handles)
