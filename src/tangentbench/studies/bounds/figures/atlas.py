"""The atlas: room that the bound leaves below the risk of guessing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from tangentbench.studies.registry import figure
from tangentbench.studies.style import BLACK, figure_grid, log_axis, note

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

_LEVELS = (0.0, 0.1, 0.2, 0.3, 0.4)
_MNIST = {7: 49, 14: 188, 28: 712}
"""Image side and rank of MNIST's 60,000 training images at it."""
_MNIST_SAMPLES = 60000


@figure("bounds_atlas")
def atlas(table: pd.DataFrame, artifact: Artifact) -> Figure:
    kappas, precisions = sorted(table["kappa"].unique()), sorted(table["precision"].unique(), reverse=True)
    fig, axes = figure_grid(len(kappas), len(precisions), width=9.5, panel_height=3.7, sharex=True, sharey=True)
    norm = TwoSlopeNorm(0.0, -0.5, 0.5)
    for row, kappa in enumerate(kappas):
        for column, precision in enumerate(precisions):
            axis = axes[row, column]
            own = table[(table["kappa"] == kappa) & (table["precision"] == precision)]
            room = own.pivot(index="ratio", columns="epsilon", values="room")
            epsilon, ratio, values = room.columns.to_numpy(), room.index.to_numpy(), room.to_numpy()
            shown = np.clip(values, -0.5, 0.5)
            mesh = axis.pcolormesh(epsilon, ratio, shown, cmap="PuOr", norm=norm, shading="gouraud", rasterized=True)
            lines = axis.contour(
                epsilon, ratio, values, levels=_LEVELS, colors=BLACK, linewidths=[2.0, 0.8, 0.8, 0.8, 0.8]
            )
            axis.clabel(lines, levels=_LEVELS[1:], fmt="%g", fontsize=8)
            for side, rank in _MNIST.items():
                axis.axhline(rank / _MNIST_SAMPLES, color=BLACK, linestyle=":", linewidth=0.9)
                if column == len(precisions) - 1:
                    axis.annotate(
                        rf" {side}$\times${side}",
                        (1.0, rank / _MNIST_SAMPLES),
                        xycoords=("axes fraction", "data"),
                        va="center",
                        fontsize=8,
                    )
            log_axis(axis, "x", "y")
            axis.grid(False)
            axis.set_title(rf"$\kappa$ = {kappa}, $p$ = {precision}")
    note(axes[0, 0], "bold: nothing left; vacuous beyond it", (0.97, 0.97), corner="upper right", fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel(r"nonlinearity $\epsilon$")
    for axis in axes[:, 0]:
        axis.set_ylabel("dimension over examples, $d/m$")
    fig.colorbar(mesh, ax=axes, label="room for the train margin risk, 0.5 - gap", shrink=0.7, pad=0.07)
    return fig
