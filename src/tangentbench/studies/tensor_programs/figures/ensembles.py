"""Figures A.4 to A.7: Wasserstein distances between laws against the width, a panel for each epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tangentbench.studies.registry import figure
from tangentbench.studies.style import MARKERS, PAPER, category_colours, figure_grid, legend_outside
from tangentbench.studies.tensor_programs.figures.laws import label_of
from tangentbench.studies.tensor_programs.figures.panels import clear_of_noise, width_axes

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

NETWORKS = {"N": 1.0, "N/2": 0.5, "N/4": 0.25}
"""How strongly the curve from all networks, half and a quarter of them is drawn."""
DASHES = {"all": "-", "matrices": "--"}
SCALARS = {"train_loss": "train loss", "readout_norm": r"readout norm $\|V\|_F/\sqrt{n}$"}


@figure("tensor_programs_figA_4")
@figure("tensor_programs_figA_6")
@figure("tensor_programs_figA_7")
def train_losses(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return panels(table, "train_loss")


@figure("tensor_programs_figA_5")
def readout_norms(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return panels(table, "readout_norm")


def panels(table: pd.DataFrame, scalar: str) -> Figure:
    rows = table[table["scalar"] == scalar]
    curves = rows[rows["quantity"] == "distance"]
    limits = clear_limits(rows[rows["quantity"] == "limit gap"])
    epochs = sorted(curves["epoch"].unique())
    laws = list(dict.fromkeys(curves["law"]))
    colours = category_colours(laws)
    fig, axes = figure_grid(1, len(epochs), width=3.9 * len(epochs), panel_height=4.1, sharey=True)
    for axis, epoch in zip(axes[0], epochs, strict=True):
        now = curves[curves["epoch"] == epoch]
        for law, marker in zip(laws, MARKERS, strict=False):
            for swapped in DASHES:
                draw_curves(axis, now[(now["law"] == law) & (now["swapped"] == swapped)], colours[law], marker, swapped)
        for law, gap in limits.get(int(epoch), {}).items():
            axis.axhline(gap, color=colours[law], linestyle=":", linewidth=1.3)
        width_axes(axis, curves["width"], turned=curves["width"].nunique() > 5)
        axis.set_title("after 1 epoch" if epoch == 1 else f"after {epoch} epochs")
    axes[0, 0].set_ylabel(f"Wasserstein distance from Gaussian,\n{SCALARS[scalar]}")
    legend_outside(fig, where="below", handles=handles(curves, laws, colours, bool(limits)), columns=5)
    return fig


def clear_limits(rows: pd.DataFrame) -> dict[int, dict[str, float]]:
    """By epoch and law, the distances in the limit that stand clear of their standard error."""
    found: dict[int, dict[str, float]] = {}
    for epoch in rows["epoch"].unique():
        for law in rows["law"].unique():
            gap = clear_of_noise(rows.loc[(rows["epoch"] == epoch) & (rows["law"] == law), "value"].astype(float))
            if gap is not None:
                found.setdefault(int(epoch), {})[str(law)] = gap
    return found


def draw_curves(axis: Axes, rows: pd.DataFrame, colour: str, marker: str, swapped: str) -> None:
    """One curve for each number of networks, the mean over the parts that do not overlap."""
    for networks, strength in NETWORKS.items():
        mean = rows[rows["networks"] == networks].groupby("width")["value"].mean()
        if len(mean):
            widths = mean.index.to_numpy(dtype=float)
            shape = marker if networks == "N" else None
            axis.plot(
                widths, mean, color=colour, alpha=strength, linestyle=DASHES[swapped], marker=shape, markersize=4.5,
                linewidth=1.7 if networks == "N" else 1.0,
            )  # fmt: skip


def handles(curves: pd.DataFrame, laws: list[str], colours: dict[str, str], with_limits: bool) -> list[Line2D]:
    signs = zip(laws, MARKERS, strict=False)
    shown = [Line2D([], [], color=colours[law], marker=marker, label=label_of(law)) for law, marker in signs]
    if curves["swapped"].nunique() > 1:
        shown.append(Line2D([], [], color=PAPER, label="all weights swapped"))
        shown.append(Line2D([], [], color=PAPER, linestyle="--", label="only the matrix"))
    shown += [
        Line2D([], [], color=PAPER, alpha=strength, label=f"from {networks} networks")
        for networks, strength in NETWORKS.items()
    ]
    if with_limits:
        shown.append(Line2D([], [], color=PAPER, linestyle=":", label="in the limit"))
    return shown
