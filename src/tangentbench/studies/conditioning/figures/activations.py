"""The coefficients of non-linearity, and NormReLU beside SeLU."""

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
    PAPER,
    SKY,
    VERMILION,
    figure_grid,
    legend_outside,
    log_axis,
    note,
    paper_line,
)
from tangentbench.theory.quadrature import gaussian_density

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

AGREEMENT = 1e-6
"""To which closed form and quadrature are asked to agree."""
SMALLEST_DRAWN = 1e-17
"""Differences that are exactly zero sit here, at the left edge of the logarithmic axis."""


@figure("conditioning_table_mu")
def draw_coefficients(table: pd.DataFrame, artifact: Artifact) -> Figure:
    fig, axes = figure_grid(1, 2, panel_height=3.9, sharey=True, width_ratios=(1.5, 1.0))
    left, right = axes[0]
    rows = table.sort_values("mu_quadrature").reset_index(drop=True)
    place = dict(zip(rows["activation"], rows.index, strict=True))

    left.hlines(rows.index, 0.0, rows["mu_closed_form"], color="#CFCFCF", linewidth=3.0, zorder=1)
    left.plot(rows["mu_closed_form"], rows.index, "o", color=BLUE, markersize=6, label="closed form")
    left.plot(
        rows["mu_quadrature"], rows.index, "o", mfc="none", mec=VERMILION, mew=1.6, markersize=11, label="quadrature"
    )
    printed = [
        (value.value, place[value.measure["where"]["activation"]])
        for value in artifact.paper_values
        if value.measure is not None and value.measure["where"]["activation"] in place
    ]
    if printed:
        left.plot(*zip(*printed, strict=True), "|", color=PAPER, markersize=18, mew=1.4, zorder=1.5, label="paper")
    for index, value in enumerate(rows["mu_closed_form"]):
        left.annotate(f"{value:.4f}", (value, index), (11, 0), textcoords="offset points", va="center", fontsize=9)
    note(left, "* not in the paper", (0.98, 0.03), corner="lower right")
    left.set_yticks(rows.index, [_name_of(row) for _, row in rows.iterrows()])
    left.set(xlim=(-0.04, 1.19), ylim=(-0.7, len(rows) - 0.3), xlabel="coefficient of non-linearity $\\mu$")
    left.set_title("How far from linear")
    left.grid(axis="y", visible=False)

    drawn = rows["difference"].clip(lower=SMALLEST_DRAWN)
    exact = rows["difference"] < SMALLEST_DRAWN
    right.plot(drawn[~exact], rows.index[~exact], "D", color=GREEN)
    right.plot(drawn[exact], rows.index[exact], "D", mfc="white", color=GREEN)
    for index in rows.index[exact]:
        right.text(SMALLEST_DRAWN * 3, index, "no difference", va="center", fontsize=8, color="#606060")
    paper_line(right, AGREEMENT, along="x")
    right.text(AGREEMENT / 2, -0.45, "asked for", ha="right", va="center", fontsize=8, color=PAPER)
    log_axis(right, "x")
    right.set(xlim=(SMALLEST_DRAWN / 3, AGREEMENT * 10), xlabel="|closed form − quadrature|")
    right.set_title("Agreement")
    legend_outside(fig, where="below")
    return fig


def _name_of(row: pd.Series) -> str:
    return f"{row['label']}{' *' if row['origin'] == 'ours' else ''}"


@figure("conditioning_fig2")
def draw_norm_relu(table: pd.DataFrame, artifact: Artifact) -> Figure:
    fig, axes = figure_grid(1, 2, panel_height=3.9)
    left, right = axes[0]
    curves = table[table["quantity"] == "curve"]
    for name, label, colour, dashes in (("norm_relu", "NormReLU", BLUE, "-"), ("selu", "SeLU", VERMILION, "--")):
        rows = curves[curves["activation"] == name]
        left.plot(rows["x"], rows["value"], color=colour, linestyle=dashes, label=label)
    for axis in (left, right):
        axis.axhline(0.0, color="#909090", linewidth=0.8, zorder=1)
        axis.axvline(0.0, color="#909090", linewidth=0.8, zorder=1)
        axis.set(xlabel="$x$", xlim=(curves["x"].min(), curves["x"].max()))
    left.set(ylabel="$\\sigma(x)$")
    left.set_title("Two normalised activations")
    left.legend(loc="lower right")
    note(left, _normalisation(table), (0.03, 0.97))
    _draw_gap(right, table)
    return fig


def _number(table: pd.DataFrame, quantity: str, activation: str | None = None) -> float:
    rows = table[table["quantity"] == quantity]
    if activation is not None:
        rows = rows[rows["activation"] == activation]
    return float(rows["value"].iloc[0])


def _normalisation(table: pd.DataFrame) -> str:
    return "\n".join(
        [
            f"NormReLU: $\\lambda$ = {_number(table, 'scale', 'norm_relu'):.4f}, "
            f"$b$ = {_number(table, 'shift', 'norm_relu'):.4f}, $\\mu$ = {_number(table, 'mu', 'norm_relu'):.4f}",
            f"SeLU: $\\lambda$ = {_number(table, 'scale', 'selu'):.4f}, $\\mu$ = {_number(table, 'mu', 'selu'):.4f}",
        ]
    )


def _draw_gap(axis: Axes, table: pd.DataFrame) -> None:
    """NormReLU minus SeLU, and the same weighted with how often a Gaussian input falls there."""
    gap = table[table["quantity"] == "difference"]
    weighted = table[table["quantity"] == "weighted difference"]
    axis.plot(gap["x"], gap["value"], color=GREEN, label="NormReLU − SeLU")
    axis.fill_between(
        weighted["x"], weighted["value"], color=SKY, alpha=0.75, linewidth=0, label="times the density of $x$"
    )
    density = gaussian_density(gap["x"].to_numpy()) * np.abs(gap["value"]).max()
    axis.plot(gap["x"], density, color=PAPER, linewidth=1.0, linestyle=":", label="density of $x$ (not to scale)")
    axis.set(ylabel="difference")
    axis.set_title(f"Where they differ (correlation {_number(table, 'correlation'):.4f})")
    axis.legend(loc="lower right")
