"""Figure 6: squared norms and bias through a layer of NormReLU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tangentbench.studies.registry import figure
from tangentbench.studies.style import BLUE, PAPER, VERMILION, figure_grid, note

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact


@figure("conditioning_fig6")
def draw_norm_propagation(table: pd.DataFrame, artifact: Artifact) -> Figure:
    fig, axes = figure_grid(1, 2, panel_height=4.0)
    left, right = axes[0]
    numbers = table[table["method"] == "closed form"]
    _draw_curve(left, table, "norm transfer")
    _draw_curve(right, table, "bias")
    gamma = numbers.loc[numbers["quantity"] == "norm transfer", "gamma"]
    low, high = float(gamma.min()), float(gamma.max())

    left.plot([low, high], [low, high], color=PAPER, linestyle=":", linewidth=1.2, label="norm unchanged")
    start, slope = _at(numbers, "norm transfer", low), _at(numbers, "norm transfer slope", 1.0)
    left.plot(
        [low, 1.0], [start, 1.0], color=PAPER, linestyle="--", linewidth=1.1, label="chord below 1, tangent above"
    )
    left.plot([1.0, high], [1.0, 1.0 + slope * (high - 1.0)], color=PAPER, linestyle="--", linewidth=1.1)
    left.plot(1.0, 1.0, "o", color="black", markersize=5, zorder=4)
    left.set(ylabel="$\\hat\\sigma_\\ell(\\gamma)$, squared norm after")
    left.set_title("Norms move towards one")
    left.legend(loc="lower right")
    note(
        left,
        f"$\\hat\\sigma_\\ell$({low:g}) = {start:.5f}\n"
        f"slope at 1: {slope:.5f}\n"
        f"$\\alpha^-$ = {_constant(numbers, 'alpha minus'):.5f}, $\\alpha^+$ = {_constant(numbers, 'alpha plus'):.5f}\n"
        f"$\\alpha'$ = min = {_constant(numbers, 'alpha'):.5f}",
        (0.03, 0.97),
    )

    ends = {end: _at(numbers, "bias", end) for end in (low, high)}
    for end, value in ends.items():
        right.plot(
            [end, 1.0], [value, 0.0], color=PAPER, linestyle="--", linewidth=1.1, label="chords" if end == low else None
        )
    right.set(ylabel="1000 bias($\\gamma$), constant share of the norm")
    right.set_title("Bias vanishes at one")
    right.yaxis.set_major_formatter(lambda value, _: f"{1e3 * value:g}")
    right.legend(loc="center left", bbox_to_anchor=(0.0, 0.6))
    sums = "\n".join(
        f"bias summed from $\\gamma$ = {end:g}: {_at(numbers, 'bias sum', end):.5f}" for end in (low, high)
    )
    note(
        right,
        f"bias({low:g}) = {ends[low]:.6f}, bias({high:g}) = {ends[high]:.6f}\n"
        f"$\\delta'$ = max({_constant(numbers, 'delta minus'):.5f}, {_constant(numbers, 'delta plus'):.5f})\n{sums}",
        (0.03, 0.97),
    )
    for axis in (left, right):
        axis.set(xlabel="$\\gamma$, squared norm before the layer", xlim=(low, high))
    return fig


def _draw_curve(axis: Axes, table: pd.DataFrame, quantity: str) -> None:
    """The closed form as a line, some points of the quadrature on it."""
    rows = table[table["quantity"] == quantity]
    exact, numeric = (rows[rows["method"] == method] for method in ("closed form", "quadrature"))
    axis.plot(exact["gamma"], exact["value"], color=BLUE, label="closed form", zorder=3)
    some = numeric.iloc[:: max(len(numeric) // 12, 1)]
    axis.plot(
        some["gamma"],
        some["value"],
        "o",
        mfc="none",
        mec=VERMILION,
        markersize=6,
        mew=1.3,
        zorder=3.5,
        label="quadrature",
    )


def _at(numbers: pd.DataFrame, quantity: str, gamma: float) -> float:
    rows = numbers[(numbers["quantity"] == quantity) & (numbers["gamma"] == gamma)]
    return float(rows["value"].iloc[0])


def _constant(numbers: pd.DataFrame, quantity: str) -> float:
    return float(numbers.loc[numbers["quantity"] == quantity, "value"].iloc[0])
