"""Figure 5.1: representations of images and neurons in their main plane, with the forces on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tangentbench.studies.registry import figure
from tangentbench.studies.style import BLUE, GREEN, MARKERS, ORANGE, PAPER, PURPLE, figure_grid, legend_outside, note

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

_REPELLING = "#D62728"
"""Red, as the paper has it."""
_DIGIT_COLOURS = (BLUE, ORANGE, PURPLE)
_LONGEST_ARROW = 0.22
"""Of the panel's side."""


@figure("regularised_fig5_1")
def attraction_and_repulsion(table: pd.DataFrame, artifact: Artifact) -> Figure:
    """The first run; the numbers in the corners are those the claims use."""
    run = table[table["seed"] == table["seed"].min()]
    layers = sorted(layer for layer in run["layer"].unique() if layer > 0)
    fig, axes = figure_grid(len(layers), 2, panel_height=4.1)
    for row, layer in zip(axes, layers, strict=True):
        own = run[run["layer"] == layer]
        numbers = own.dropna(subset=["quantity"]).set_index("quantity")["value"]
        _draw_images(row[0], own[own["view"] == "images"])
        row[0].set_title(f"$Z_{layer:g}$: images")
        note(row[0], f"mean silhouette {numbers['silhouette, trained']:.2f}", (0.02, 0.02), corner="lower left")
        _draw_neurons(row[1], own[own["view"] == "neurons"], own[own["view"] == "rays"])
        row[1].set_title(f"$Z_{layer:g}$: neurons")
        share, needed = numbers["share near the rays, trained"], numbers["rays needed"]
        degrees, wanted = artifact.settings["rays"]["degrees"], artifact.settings["rays"]["share"]
        text = f"{share:.0%} of the squared norm within\n{degrees:g}° of three rays; {wanted:.0%} needs {needed:g}"
        note(row[1], text, (0.02, 0.98))
    for axis in axes.ravel():
        axis.set_xlabel("first main direction")
        axis.set_ylabel("second main direction")
    digits = sorted(run[run["view"] == "images"]["label"].unique())
    legend_outside(fig, where="below", handles=_legend_handles(digits))
    return fig


def _draw_images(axis: Axes, points: pd.DataFrame) -> None:
    for digit, colour, marker in zip(sorted(points["label"].unique()), _DIGIT_COLOURS, MARKERS, strict=False):
        own = points[points["label"] == digit]
        axis.scatter(
            own["x"], own["y"], s=26, color=colour, marker=marker, linewidths=0.4, edgecolors="white", zorder=3
        )
    _draw_forces(axis, points)


def _draw_neurons(axis: Axes, points: pd.DataFrame, rays: pd.DataFrame) -> None:
    reach = 1.15 * np.hypot(points["x"], points["y"]).max()
    for x, y in rays[["x", "y"]].to_numpy():
        length = max(float(np.hypot(x, y)), 1e-12)
        axis.plot(
            [0, reach * x / length], [0, reach * y / length], color=PAPER, linestyle="--", linewidth=1.1, zorder=1
        )
    axis.scatter(points["x"], points["y"], s=22, color="black", linewidths=0.4, edgecolors="white", zorder=3)
    _draw_forces(axis, points)


def _draw_forces(axis: Axes, points: pd.DataFrame) -> None:
    """Both kinds of arrows to one scale, the longest a fifth of the panel."""
    arrows = points[["attraction_x", "attraction_y", "repulsion_x", "repulsion_y"]].to_numpy()
    longest = max(np.hypot(arrows[:, 0], arrows[:, 1]).max(), np.hypot(arrows[:, 2], arrows[:, 3]).max())
    side = max(np.ptp(points["x"]), np.ptp(points["y"]))
    scale = longest / (_LONGEST_ARROW * side)
    for first, colour in ((0, GREEN), (2, _REPELLING)):
        axis.quiver(
            points["x"],
            points["y"],
            arrows[:, first],
            arrows[:, first + 1],
            color=colour,
            angles="xy",
            scale_units="xy",
            scale=scale,
            width=0.004,
            zorder=2,
        )
        ends = points[["x", "y"]].to_numpy() + arrows[:, first : first + 2] / scale
        axis.update_datalim(ends)
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.06)
    axis.autoscale_view()


def _legend_handles(digits: list[float]) -> list[Line2D]:
    points = [
        Line2D([], [], color=colour, marker=marker, linestyle="none", label=f"digit {digit:g}")
        for digit, colour, marker in zip(digits, _DIGIT_COLOURS, MARKERS, strict=False)
    ]
    return [
        *points,
        Line2D([], [], color="black", marker="o", linestyle="none", label="neuron"),
        Line2D([], [], color=PAPER, linestyle="--", label="fitted ray"),
        Line2D([], [], color=GREEN, label="attraction"),
        Line2D([], [], color=_REPELLING, label="repulsion"),
    ]
