"""Seconds of the three stages against the number of images or their side, with operations or accuracy beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tangentbench.studies.registry import figure
from tangentbench.studies.style import (
    BLUE,
    GREEN,
    ORANGE,
    PAPER,
    SKY,
    VERMILION,
    figure_grid,
    legend_outside,
    log_axis,
    note,
)

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

SERIES = {
    ("ntk", "neural_tangents"): ("NTK, neural-tangents", BLUE, "o"),
    ("nngp", "neural_tangents"): ("NNGP, neural-tangents", SKY, "o"),
    ("ntk", "native"): ("NTK, native core", VERMILION, "s"),
    ("nngp", "native"): ("NNGP, native core", ORANGE, "s"),
    ("ntk", "torch"): ("NTK, our recursion in torch", VERMILION, "s"),
    ("nngp", "torch"): ("NNGP, our recursion in torch", ORANGE, "s"),
    ("empirical_ntk", "finite"): ("finite network", GREEN, "^"),
}
SHORT = {"neural_tangents": "neural-tangents", "native": "native core", "torch": "torch", "finite": "finite network"}
SECONDS_PER_DAY = 86400.0
TITLES = {"gram": "Gram matrix", "integration": "integration", "inference": "inference"}
APART = {"images": 1.3, "side": 1.04}
"""Factor between the intervals at the power laws' common end."""


@figure("survey_fig2_5")
def images_and_operations(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return _panels(table, artifact, "images", "operations")


@figure("survey_fig2_6")
@figure("survey_fig2_7")
def images_and_accuracy(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return _panels(table, artifact, "images", "accuracy")


@figure("survey_fig2_8")
def side_and_accuracy(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return _panels(table, artifact, "side", "accuracy")


def _panels(table: pd.DataFrame, artifact: Artifact, over: str, last: str) -> Figure:
    fig, axes = figure_grid(2, 2, width=10.0, panel_height=3.5)
    (gram, integration), (inference, beside) = axes
    label = {"images": "training images", "side": "side of the images"}[over]
    for axis, stage in ((gram, "gram"), (integration, "integration"), (inference, "inference")):
        rows = table[table["stage"] == stage]
        if stage == "inference":
            rows = rows.assign(seconds=rows["seconds"] / rows["test_images"])
        _draw_stage(axis, rows, over, "seconds")
        axis.set(
            title=TITLES[stage], xlabel=label, ylabel="seconds" if axis is not inference else "seconds per test image"
        )
    _draw_laws(gram, table[table["stage"] == "gram"], over, artifact)
    if last == "operations":
        _draw_stage(beside, table[table["stage"] == "gram"], over, "operations")
        beside.set(title="operations of the Gram matrix", xlabel=label, ylabel="floating-point operations")
    else:
        tests = _draw_accuracy(beside, table, over)
        beside.set(title=f"accuracy on {tests} test images", xlabel=label, ylabel="% right")
    legend_outside(fig, where="below", columns=3)
    return fig


def _draw_stage(axis: Axes, rows: pd.DataFrame, over: str, column: str) -> None:
    """Measured points of every series, joined."""
    log_axis(axis, "x", "y")
    for (kernel, backend), (name, colour, marker) in SERIES.items():
        own = _chosen(rows, kernel, backend, measured=True).sort_values(over)
        if not own.empty:
            axis.plot(own[over], own[column], "-", marker=marker, color=colour, label=name)


def _chosen(rows: pd.DataFrame, kernel: str, backend: str, *, measured: bool) -> pd.DataFrame:
    return rows[(rows["kernel"] == kernel) & (rows["backend"] == backend) & (rows["measured"].astype(bool) == measured)]


def _draw_laws(axis: Axes, rows: pd.DataFrame, over: str, artifact: Artifact) -> None:
    """Each series' power law from its last point to the target, its 95 % interval there, and the thesis's number."""
    lines = []
    drawn = 0
    for (kernel, backend), (_, colour, marker) in SERIES.items():
        points, law = (_chosen(rows, kernel, backend, measured=one) for one in (True, False))
        if points.empty or law.empty:
            continue
        end = law.iloc[0]
        last = points.sort_values(over).iloc[-1]
        axis.plot([last[over], end[over]], [last["seconds"], end["seconds"]], "--", color=colour, linewidth=1.1)
        axis.plot([end[over]], [end["seconds"]], color=colour, marker=marker, mfc="white", markersize=5)
        drawn += 1
        if np.isfinite(end["high"]) and end["low"] > 0:
            # all laws end at the same place: beyond it, their intervals can be told from each other
            axis.vlines(end[over] * APART[over] ** drawn, end["low"], end["high"], color=colour, linewidth=1.4)
        if kernel != "nngp":
            lines.append(f"{SHORT[backend]}: exponent {end['exponent']:.2f}{_error(end['exponent_error'])}")
    for printed in artifact.paper_values:
        seconds = printed.value * (SECONDS_PER_DAY if printed.unit == "days" else 1.0)
        # the thesis's days are those of 500 images, which only scale paper has
        if over == "images" or rows["images"].max() == 500:
            axis.plot([rows[over].max()], [seconds], "*", markersize=12, color=PAPER, label="thesis, GTX 1080Ti")
    axis.plot([], [], "--o", color=PAPER, mfc="white", linewidth=1.1, label="extrapolated power law, 95 % interval")
    note(axis, "\n".join(lines), (0.03, 0.97), fontsize=8)


def _error(value: float) -> str:
    return f" ± {value:.2f}" if np.isfinite(value) else ""


def _draw_accuracy(axis: Axes, table: pd.DataFrame, over: str) -> int:
    """Of the series with the most test images, whose number is returned: few tests say little."""
    rows = table[(table["stage"] == "gram") & table["measured"].astype(bool)]
    rows = rows[rows["test_images"] == rows["test_images"].max()]
    log_axis(axis, "x")
    for (kernel, backend), (name, colour, marker) in SERIES.items():
        own = _chosen(rows, kernel, backend, measured=True).sort_values(over)
        if not own.empty:
            axis.plot(own[over], 100 * own["accuracy"], "-", marker=marker, color=colour, label=name)
    return int(rows["test_images"].iloc[0])
