"""Figures 5 and 6: cumulated spectra of the memorisation network's kernel, and its training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tangentbench.studies.registry import figure
from tangentbench.studies.style import PAPER, figure_grid, legend_outside, log_axis, sequential_colours

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

PANEL_WIDTH = 3.5
BAND = (0.1, 0.9)
"""Quantiles over runs between which the bands are drawn."""


@figure("npk_fig5")
def ideal_spectrum(table: pd.DataFrame, artifact: Artifact) -> Figure:
    colours = sequential_colours(table["depth"])
    fig, axes = figure_grid(1, 2, width=10.0, width_ratios=[1.35, 1.0])
    sums, extremes = axes[0]
    curves = table[table["quantity"] == "cumulated eigenvalue"]
    for depth, curve in curves.groupby("depth"):
        index, value = curve["index"].to_numpy(dtype=float), curve["value"].to_numpy()
        sums.plot(index, value, color=colours[depth], label=f"{depth}")
        # the last eigenvalue is a jump in one index, which a line alone hardly shows
        sums.plot(index[-1], value[-1], "o", color=colours[depth])
    label_spectrum(sums, r"cumulated eigenvalues of $E[K_0]/d$")
    legend_outside(sums, title="depth $d$", where="right")
    draw_extremes(extremes, table)
    return fig


def draw_extremes(axis: Axes, table: pd.DataFrame) -> None:
    """Largest and smallest eigenvalue against depth: markers from the matrix, lines from the closed form."""
    formulas = {
        "largest eigenvalue": (r"$\rho_{\max} = 1 + (n-1)\mu^{d-1}$", "C1", "o"),
        "smallest eigenvalue": (r"$\rho_{\min} = 1 - \mu^{d-1}$", "C0", "s"),
    }
    for quantity, (formula, colour, marker) in formulas.items():
        rows = table[table["quantity"] == quantity].sort_values("depth")
        axis.plot(rows["depth"], rows["closed_form"], color=colour, label=formula)
        axis.plot(rows["depth"], rows["value"], marker, color=colour)
    log_axis(axis, "y")
    axis.set_xticks(sorted(table["depth"].unique()))
    axis.set_xlabel("depth $d$")
    axis.set_ylabel("eigenvalue")
    axis.legend(loc="upper right")
    axis.set_title("closed form (lines) and matrix (marks)")


@figure("npk_fig6")
def memorisation(table: pd.DataFrame, artifact: Artifact) -> Figure:
    widths = sorted(table["width"].unique())
    colours = sequential_colours(table["depth"])
    fig, axes = figure_grid(1, 2 * len(widths), width=PANEL_WIDTH * 2 * len(widths), panel_height=3.7)
    for pair, width in enumerate(widths):
        rows = table[table["width"] == width]
        spectrum, errors = axes[0, 2 * pair : 2 * pair + 2]
        for depth, own in rows.groupby("depth"):
            draw_spectrum(spectrum, own[own["quantity"] == "cumulated eigenvalue"], colours[depth])
            # step 0, where every curve is 1, has no place on a logarithmic axis
            curve = own[(own["quantity"] == "error ratio") & (own["step"] > 0)]
            draw_mean_and_band(errors, over_runs(curve, "step"), colours[depth])
        label_spectrum(spectrum, "cumulated eigenvalues of $K_0/d$")
        spectrum.set_title(f"spectrum, $w = {width}$")
        log_axis(errors, "x", "y")
        errors.set_xlabel("step $t$")
        errors.set_ylabel(r"$\|e_t\|^2 / \|e_0\|^2$")
        errors.set_title(f"training, $w = {width}$")
    handles = [Line2D([], [], color=colour, label=f"{depth}") for depth, colour in colours.items()]
    handles.append(Line2D([], [], color=PAPER, linestyle=":", label="ideal"))
    legend_outside(fig, title="depth $d$", handles=handles)
    return fig


def draw_spectrum(axis: Axes, rows: pd.DataFrame, colour: str) -> None:
    curve = over_runs(rows, "index")
    ideal = rows.groupby("index")["ideal"].first()
    draw_mean_and_band(axis, curve, colour)
    axis.plot(ideal.index.to_numpy(dtype=float), ideal.to_numpy(), ":", color=colour, linewidth=1.1)


def draw_mean_and_band(axis: Axes, curve: pd.DataFrame, colour: str) -> None:
    along = curve.index.to_numpy(dtype=float)
    axis.fill_between(along, curve["low"], curve["high"], color=colour, alpha=0.15, linewidth=0)
    axis.plot(along, curve["mean"], color=colour)


def over_runs(rows: pd.DataFrame, along: str) -> pd.DataFrame:
    """Mean and band over the runs at each value of `along`."""
    grouped = rows.groupby(along)["value"]
    low, high = (grouped.quantile(quantile) for quantile in BAND)
    return pd.DataFrame({"mean": grouped.mean(), "low": low, "high": high})


def label_spectrum(axis: Axes, quantity: str) -> None:
    axis.set_xlabel("eigenvalue index $k$, ascending")
    axis.set_ylabel(quantity)
    axis.set_title("ideal spectrum")
