"""Our own question: the share of gates that flip during training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.figure import Figure

from tangentbench.studies.npk.figures.runs import mean_and_range, of
from tangentbench.studies.registry import figure
from tangentbench.studies.style import figure_grid, legend_outside, sequential_colours

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

QUANTITIES = {
    "flipped since start": "flipped since the start",
    "flipped in the epoch": "flipped in the epoch",
    "on": "on",
}
MODES = {"relu": "ReLU", "dnpfl": "decoupled (DNPFL)"}


@figure("npk_gates")
def flipping_gates(table: pd.DataFrame, artifact: Artifact) -> Figure:
    modes = [mode for mode in MODES if (table["mode"] == mode).any()]
    fig, axes = figure_grid(len(modes), len(QUANTITIES), width=11.0, panel_height=2.9, sharex=True, sharey="col")
    layers = table["layer"].dropna()
    colours = sequential_colours(int(layer) for layer in layers)
    for mode, across in zip(modes, axes, strict=True):
        for axis, (quantity, title) in zip(across, QUANTITIES.items(), strict=True):
            rows = of(table, mode=mode, quantity=quantity)
            for layer, colour in colours.items():
                mean_and_range(axis, of(rows, layer=layer), "epoch", colour=colour, label=f"layer {layer}")
            axis.set_title(f"{MODES[mode]}: {title}", fontsize=10)
        across[0].set_ylabel("gates (%)")
    for axis in axes[-1]:
        axis.set_xlabel("epoch")
        axis.set_ylim(bottom=0.0)
    legend_outside(fig, where="below")
    return fig
