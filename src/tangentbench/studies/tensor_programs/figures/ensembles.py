"""Figures A.4 to A.7: Wasserstein distances between distributions against the width, a panel for each epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tangentbench.studies.registry import figure
from tangentbench.studies.style import PAPER, legend_outside
from tangentbench.studies.tensor_programs.figures.panels import (
    CurveStyle,
    clear_of_noise,
    panel_row,
    styles_of,
    width_axes,
)

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

_NETWORKS = {"N": 1.0, "N/2": 0.5, "N/4": 0.25}
"""How strongly the curve from all networks, half and a quarter of them is drawn."""
_DASHES = {"all": "-", "matrices": "--"}
_SCALARS = {"train_loss": "train loss", "readout_norm": r"readout norm $\|V\|_F/\sqrt{n}$"}


@figure("tensor_programs_figA_4")
@figure("tensor_programs_figA_6")
@figure("tensor_programs_figA_7")
def train_losses(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return _panels(table, "train_loss")


@figure("tensor_programs_figA_5")
def readout_norms(table: pd.DataFrame, artifact: Artifact) -> Figure:
    return _panels(table, "readout_norm")


def _panels(table: pd.DataFrame, scalar: str) -> Figure:
    rows = table[table["scalar"] == scalar]
    curves = rows[rows["quantity"] == "distance"]
    limits = _clear_limits(rows[rows["quantity"] == "limit gap"])
    styles = styles_of(curves)

    def draw(axis: Axes, epoch: int) -> None:
        now = curves[curves["epoch"] == epoch]
        for name, style in styles.items():
            for swapped in _DASHES:
                _draw_curves(axis, now[(now["law"] == name) & (now["swapped"] == swapped)], style, swapped)
        for name, gap in limits.get(int(epoch), {}).items():
            axis.axhline(gap, color=styles[name].colour, linestyle=":", linewidth=1.3)
        width_axes(axis, curves["width"], turned=curves["width"].nunique() > 5)
        axis.set_title("after 1 epoch" if epoch == 1 else f"after {epoch} epochs")

    ylabel = f"Wasserstein distance from Gaussian,\n{_SCALARS[scalar]}"
    fig = panel_row(sorted(curves["epoch"].unique()), (3.9, 4.1), ylabel, draw)
    legend_outside(fig, where="below", handles=_handles(curves, styles, bool(limits)), columns=5)
    return fig


def _clear_limits(rows: pd.DataFrame) -> dict[int, dict[str, float]]:
    """By epoch and distribution, the distances in the limit that are clear of their standard error."""
    found: dict[int, dict[str, float]] = {}
    for epoch in rows["epoch"].unique():
        for name in rows["law"].unique():
            gap = clear_of_noise(rows.loc[(rows["epoch"] == epoch) & (rows["law"] == name), "value"].astype(float))
            if gap is not None:
                found.setdefault(int(epoch), {})[str(name)] = gap
    return found


def _draw_curves(axis: Axes, rows: pd.DataFrame, style: CurveStyle, swapped: str) -> None:
    """One curve for each number of networks, the mean over the parts that do not overlap."""
    for networks, strength in _NETWORKS.items():
        mean = rows[rows["networks"] == networks].groupby("width")["value"].mean()
        if len(mean):
            widths = mean.index.to_numpy(dtype=float)
            shape = style.marker if networks == "N" else None
            axis.plot(
                widths, mean, color=style.colour, alpha=strength, linestyle=_DASHES[swapped], marker=shape,
                markersize=4.5, linewidth=1.7 if networks == "N" else 1.0,
            )  # fmt: skip


def _handles(curves: pd.DataFrame, styles: Mapping[str, CurveStyle], with_limits: bool) -> list[Line2D]:
    shown = [Line2D([], [], color=one.colour, marker=one.marker, label=one.label) for one in styles.values()]
    if curves["swapped"].nunique() > 1:
        shown.append(Line2D([], [], color=PAPER, label="all weights swapped"))
        shown.append(Line2D([], [], color=PAPER, linestyle="--", label="only the matrix"))
    shown += [
        Line2D([], [], color=PAPER, alpha=strength, label=f"from {networks} networks")
        for networks, strength in _NETWORKS.items()
    ]
    if with_limits:
        shown.append(Line2D([], [], color=PAPER, linestyle=":", label="in the limit"))
    return shown
