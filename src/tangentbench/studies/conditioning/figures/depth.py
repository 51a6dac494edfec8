"""Theorems 3, 5, 11 and 59: correlations and condition numbers against depth, with their bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tangentbench.studies.registry import figure
from tangentbench.studies.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PAPER,
    PURPLE,
    SKY,
    VERMILION,
    figure_grid,
    legend_outside,
    log_axis,
    note,
    sequential_colours,
)

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

COLOURS = {
    "normalised_norm_relu": BLUE,
    "normalised_selu": SKY,
    "normalised_tanh": PURPLE,
    "normalised_leaky_relu": GREEN,
    "normalised_relu": VERMILION,
    "normalised_step": ORANGE,
    "normalised_exponential": ORANGE,
    "normalised_hermite2": BLACK,
    "scaled_relu": "#8A8A8A",
    "scaled_step": "#8A8A8A",
}
BEYOND_THE_NAMED = "#7F5A3C"
PAIRS = "sphere_pairs"
COMPARED_AT = 0.01
"""The separation at which activations are drawn side by side."""
SMALLEST_CORRELATION = 1e-9
SMALLEST_EXCESS, LARGEST_EXCESS = 1e-6, 1e10
NAMES = {
    "mnist5k": "MNIST digits",
    "mnist": "MNIST digits",
    "photographs": "photographs",
    "cifar10": "CIFAR-10 images",
}


@figure("conditioning_theorem3")
def draw_top_layer(table: pd.DataFrame, artifact: Artifact) -> Figure:
    fig, axes = figure_grid(3, 2, panel_height=3.3)
    _draw_correlations(axes[0, 0], axes[0, 1], table, "$|K_{ij}|$")
    _draw_conditioning(axes[1], table, "$\\kappa(K)-1$", ("corollary 8", "corollary 4"))
    _draw_uncentred(axes[2, 0], table)
    _draw_unequal_norms(axes[2, 1], table)
    _finish(fig, axes.ravel().tolist(), table)
    return fig


@figure("conditioning_theorem5")
def draw_tangent(table: pd.DataFrame, artifact: Artifact) -> Figure:
    fig, axes = figure_grid(2, 2, panel_height=3.5)
    _draw_correlations(axes[0, 0], axes[0, 1], table, "$|\\mathcal{K}_{ij}|\\,/\\,\\mathcal{K}_{ii}$")
    _draw_conditioning(axes[1], table, "$\\kappa(\\mathcal{K})-1$", ("corollary 10", "corollary 6"))
    _finish(fig, axes.ravel().tolist(), table)
    return fig


def _finish(fig: Figure, axes: list[Axes], table: pd.DataFrame) -> None:
    for axis in axes:
        log_axis(axis, "x")
        axis.set(xlabel="depth $L$", xlim=(1, table["depth"].max()))
    handles = [
        Line2D([], [], color=colour_of(name), label=short(label))
        for name, label in table[["activation", "label"]].drop_duplicates().itertuples(index=False)
        if name == "scaled_relu" or name.startswith("normalised_")
    ]
    legend_outside(fig, where="below", columns=4, handles=handles)


def short(label: str) -> str:
    return label.replace("normalised NormReLU", "NormReLU").replace("scaled ReLU", "plain ReLU (not centred)")


def colour_of(activation: str) -> str:
    return COLOURS.get(activation, BEYOND_THE_NAMED)


def _draw_correlations(left: Axes, right: Axes, table: pd.DataFrame, symbol: str) -> None:
    """NormReLU at every separation, and every activation at one."""
    pairs = table[table["data"] == PAIRS]
    ours = pairs[pairs["activation"] == "normalised_norm_relu"]
    shades = sequential_colours(pairs["delta"].dropna().astype(float))
    for delta, shade in sorted(shades.items(), reverse=True):
        _draw_with_bound(left, ours[ours["delta"] == delta], shade, f"$\\delta$ = {delta:g}")
    left.set_title("NormReLU, pairs at separation $\\delta$")
    left.legend(loc="lower left")
    compared = min(shades, key=lambda delta: abs(delta - COMPARED_AT))
    for name, rows in pairs[pairs["delta"] == compared].groupby("activation", sort=False):
        if name != "scaled_step":
            _draw_with_bound(right, rows, colour_of(str(name)), None)
    right.set_title(f"Every activation, $\\delta$ = {compared:g}")
    for axis in (left, right):
        log_axis(axis, "y")
        axis.set(ylabel=f"largest {symbol}", ylim=(SMALLEST_CORRELATION, 2.0))
    right.legend(handles=_line_styles("kernel", "bound"), loc="lower left")


def _line_styles(*labels: str) -> list[Line2D]:
    styles: tuple[Literal["-", "--", ":"], ...] = ("-", "--", ":")
    return [
        Line2D([], [], color=PAPER, linestyle=style, linewidth=1.8 if style == "-" else 1.1, label=label)
        for style, label in zip(styles, labels, strict=False)
    ]


def _draw_with_bound(axis: Axes, rows: pd.DataFrame, colour: str, label: str | None) -> None:
    _draw_curve(axis, rows, "correlation", color=colour, label=label)
    if (rows["family"] != "uncentred").all():
        _draw_curve(axis, rows, "bound", color=colour, linestyle="--", linewidth=1.1)


def _draw_curve(axis: Axes, rows: pd.DataFrame, quantity: str, **style: object) -> None:
    chosen = rows[rows["quantity"] == quantity]
    axis.plot(chosen["depth"], chosen["value"], **style)  # type: ignore[arg-type]


def _draw_conditioning(axes: list[Axes], table: pd.DataFrame, symbol: str, corollaries: tuple[str, str]) -> None:
    """One panel for each set of images."""
    sets = [name for name in table["data"].unique() if name not in (PAIRS, "unequal norms")]
    for axis, data in zip(axes, sets, strict=False):
        images = table[table["data"] == data]
        for name, rows in images.groupby("activation", sort=False):
            if name == "scaled_step":
                continue
            colour = colour_of(str(name))
            _draw_curve(axis, rows, "condition excess", color=colour)
            _draw_curve(axis, rows, "corollary B", color=colour, linestyle="--", linewidth=1.0)
            _draw_curve(axis, rows, "corollary A", color=colour, linestyle=":", linewidth=1.3)
        log_axis(axis, "y")
        axis.set(ylabel=symbol, ylim=(SMALLEST_EXCESS, LARGEST_EXCESS))
        axis.set_title(f"Condition number, {NAMES.get(data, data)}")
        separation, smallest = (_input_number(images, name) for name in ("separation", "smallest eigenvalue"))
        note(axis, f"$\\delta$ = {separation:.2g} (A), {smallest:.2g} (B)", (0.03, 0.87))
    axes[0].legend(handles=_line_styles("kernel", *corollaries), loc="upper right", ncols=3, columnspacing=1.0)


def _input_number(rows: pd.DataFrame, name: str) -> float:
    return float(rows.loc[rows["quantity"] == f"input {name}", "value"].iloc[0])


def _draw_uncentred(axis: Axes, table: pd.DataFrame) -> None:
    """Each separation as a band from its smallest to its largest correlation: pairs and mirrored pairs."""
    pairs = table[(table["data"] == PAIRS) & (table["family"] == "uncentred")]
    for name, colour, label in (("scaled_relu", PAPER, "plain ReLU"), ("scaled_step", ORANGE, "step, not centred")):
        rows = pairs[pairs["activation"] == name]
        for number, (_, group) in enumerate(rows.groupby("delta")):
            wide = group.pivot(index="depth", columns="quantity", values="value")
            axis.fill_between(
                wide.index,
                wide["smallest correlation"],
                wide["correlation"],
                color=colour,
                alpha=0.18,
                linewidth=0.0,
                label=label if number == 0 else None,
            )
            for edge in ("smallest correlation", "correlation"):
                axis.plot(wide.index, wide[edge], color=colour, linewidth=1.0)
    axis.set(ylabel="correlations $K_{ij}$", ylim=(-0.05, 1.03))
    axis.set_title("Not centred: one common fixed point")
    axis.legend(loc="lower right")


def _draw_unequal_norms(axis: Axes, table: pd.DataFrame) -> None:
    rows = table[table["family"] == "unequal norms"]
    shades = sequential_colours(table.loc[table["data"] == PAIRS, "delta"].astype(float))
    for delta in sorted(rows["delta"].unique().tolist(), reverse=True):
        _draw_with_bound(axis, rows[rows["delta"] == delta], shades[delta], f"$\\delta$ = {delta:g}")
    log_axis(axis, "y")
    axis.set(ylabel="largest |correlation|", ylim=(SMALLEST_CORRELATION, 2.0))
    axis.set_title("Squared norms 0.5 to 2, NormReLU")
    axis.legend(loc="lower left")
