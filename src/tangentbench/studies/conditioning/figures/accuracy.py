"""Figures 1, 3, 4, 5, 7 and 8: accuracies, and in Figure 1 dot products, against the epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tangentbench.studies.npk.figures.runs import mean_and_range, of
from tangentbench.studies.registry import figure
from tangentbench.studies.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, figure_grid, legend_outside

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

NORMALISATIONS = {
    "batch_norm": ("batch normalisation", BLUE),
    "layer_norm": ("layer normalisation", GREEN),
    "norm_relu": ("NormReLU", VERMILION),
    "selu": ("SeLU", PURPLE),
    "fixup": ("Fixup", SKY),
}
ARCHITECTURES = {"fc": "fully connected, depth {}", "resnet": "ResNet-{}"}
PANELS = ("train accuracy", "test accuracy")
EPOCH = "epoch"
SMALLEST_SCALE = 0.01
"""The right axis reaches at least this: smaller dot products are drawn as nearly zero."""


@figure("conditioning_fig3")
@figure("conditioning_fig4")
@figure("conditioning_fig5")
@figure("conditioning_fig7")
@figure("conditioning_fig8")
def accuracies(table: pd.DataFrame, artifact: Artifact) -> Figure:
    """One row of panels per network: train accuracy left, test accuracy right, one line per normalisation."""
    networks = list(dict.fromkeys(table["network"]))
    fig, axes = figure_grid(len(networks), len(PANELS), panel_height=3.1, sharex=True, sharey="row")
    for row, network in zip(axes, networks, strict=True):
        for axis, quantity in zip(row, PANELS, strict=True):
            _draw_accuracies(axis, of(table, network=network, quantity=quantity))
            axis.set_title(f"{_title_of(network)}: {quantity}")
        row[0].set_ylabel("accuracy (%)")
    for axis in axes[-1]:
        axis.set_xlabel(EPOCH)
    names = list(dict.fromkeys(table["normalisation"]))
    handles = [
        Line2D(
            [], [], color=NORMALISATIONS[name][1], label=f"{NORMALISATIONS[name][0]}, {_learning_rates_of(table, name)}"
        )
        for name in names
    ]
    legend_outside(fig, where="below", columns=1, handles=handles)
    return fig


def _draw_accuracies(axis: Axes, rows: pd.DataFrame) -> None:
    for name, (_, colour) in NORMALISATIONS.items():
        own = of(rows, normalisation=name)
        if len(own):
            mean_and_range(axis, own, EPOCH, colour=colour, label=None)


def _learning_rates_of(table: pd.DataFrame, normalisation: str) -> str:
    """The first learning rates of its runs, once where all networks have the same."""
    runs = of(table, normalisation=normalisation).dropna(subset=["seed"])
    by_depth = {
        str(network).rsplit("_", 1)[1]: f"{rate:g}"
        for network, rate in runs.groupby("network", sort=False)["step_size"].first().items()
    }
    if len(set(by_depth.values())) == 1:
        return f"learning rate {next(iter(by_depth.values()))}"
    return "learning rate " + ", ".join(f"{rate} (depth {depth})" for depth, rate in by_depth.items())


def _title_of(network: str) -> str:
    kind, depth = network.rsplit("_", 1)
    return ARCHITECTURES[kind].format(depth)


@figure("conditioning_fig1")
def accuracy_and_correlation(table: pd.DataFrame, artifact: Artifact) -> Figure:
    """One panel per network and normalisation, as the paper draws them: two curves on two axes."""
    networks = list(dict.fromkeys(table["network"]))
    names = list(dict.fromkeys(table["normalisation"]))
    fig, axes = figure_grid(len(networks), len(names), width=10.5, panel_height=2.8, sharex=True)
    accuracy = table["quantity"] == "test accuracy"
    highest = {network: table[accuracy & (table["network"] == network)]["value"].max() for network in networks}
    for row, network in zip(axes, networks, strict=True):
        for column, (axis, name) in enumerate(zip(row, names, strict=True)):
            own = of(table, network=network, normalisation=name)
            mean_and_range(axis, of(own, quantity="test accuracy"), EPOCH, colour=BLUE, label=None)
            axis.set_ylim(0.0, 1.08 * highest[network])
            right = axis.twinx()
            mean_and_range(right, of(own, quantity="mean dot product"), EPOCH, colour=ORANGE, label=None)
            dots = of(own, quantity="mean dot product")["value"]
            right.set_ylim(min(0.0, 1.1 * dots.min()), 1.1 * max(dots.max(), SMALLEST_SCALE))
            right.grid(False)
            right.spines["right"].set_visible(True)
            axis.set_title(f"{_title_of(network)},\n{NORMALISATIONS[name][0]}", fontsize=10)
            sides = (axis, right)
            for one, colour in zip(sides, (BLUE, ORANGE), strict=True):
                one.tick_params(axis="y", colors=colour)
            if column == 0:
                axis.set_ylabel("test accuracy (%)", color=BLUE)
            if column == len(names) - 1:
                right.set_ylabel("mean normalised dot product", color=ORANGE)
    for axis in axes[-1]:
        axis.set_xlabel(EPOCH)
    handles = [
        Line2D([], [], color=BLUE, label="test accuracy (left)"),
        Line2D([], [], color=ORANGE, label="mean normalised dot product of test representations (right)"),
    ]
    legend_outside(fig, where="below", handles=handles)
    return fig
