"""Figures D.1 and D.2: the optimistic bound of the proxy models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tangentbench.studies.registry import figure
from tangentbench.studies.style import (
    BLACK,
    GREEN,
    PAPER,
    PURPLE,
    VERMILION,
    category_colours,
    figure_grid,
    legend_outside,
    log_axis,
    sequential_colours,
)

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

_NAMES = {"kappa_1": r"$\kappa = 1$", "kappa_2": r"$\kappa = 2$", "linear": "linear network"}
_BROWN = "#8C564B"
_TOP = 1.25


@figure("bounds_figD_1")
def three_proxies(table: pd.DataFrame, artifact: Artifact) -> Figure:
    proxies = [proxy for proxy in _NAMES if proxy in set(table["proxy"])]
    table = table[table["time"] > 0]
    fig, axes = figure_grid(2, 3, width=12.5, panel_height=3.3)
    _draw_gaps(axes[0, 0], table, proxies)
    _draw_distances(axes[0, 1], table, proxies)
    _draw_best(axes[0, 2], table, proxies)
    for axis, proxy in zip(axes[1], proxies, strict=True):
        _draw_bounds(axis, table[table["proxy"] == proxy], f"bound, proxy {_NAMES[proxy]}")
    axes[1, 0].set_ylabel("risk, loss and bound")
    for axis in axes.ravel():
        axis.set_xlabel("training time $t$")
    legend_outside(fig, where="below", handles=_bound_handles(), columns=7, columnspacing=1.2)
    return fig


@figure("bounds_figD_2")
def growing_nonlinearity(table: pd.DataFrame, artifact: Artifact) -> Figure:
    table = table[(table["time"] > 0) & (table["proxy"] == "kappa_2")]
    betas, epsilons = sorted(table["beta"].unique(), reverse=True), sorted(table["epsilon"].unique())
    width = max(3.3 * len(epsilons), 8.0)
    fig, axes = figure_grid(len(betas), len(epsilons), width=width, panel_height=3.3, sharex=True, sharey=True)
    for row, beta in enumerate(betas):
        for axis, epsilon in zip(axes[row], epsilons, strict=True):
            own = table[(table["beta"] == beta) & (table["epsilon"] == epsilon)]
            _draw_bounds(axis, own, rf"$\beta$ = {beta:g}, $\epsilon$ = {epsilon:g}")
        axes[row, 0].set_ylabel("risk, loss and bound")
    for axis in axes[-1]:
        axis.set_xlabel("training time $t$")
    legend_outside(
        fig, where="below", handles=_bound_handles(), columns=9 if len(epsilons) > 3 else 4, columnspacing=1.2
    )
    return fig


def _draw_gaps(axis: Axes, table: pd.DataFrame, proxies: list[str]) -> None:
    colours = category_colours(proxies)
    for proxy in proxies:
        for _, rows in table[table["proxy"] == proxy].groupby("gamma"):
            axis.plot(rows["time"], rows["gap"], color=colours[proxy], linewidth=1.0, alpha=0.7)
    axis.set_xscale("log")
    axis.set_ylabel("continuous margin risk, test - train")
    axis.set_title("proxies' generalisation gap, every $\\gamma$")


def _draw_distances(axis: Axes, table: pd.DataFrame, proxies: list[str]) -> None:
    colours = category_colours(proxies)
    for proxy in proxies:
        rows = table[table["proxy"] == proxy].groupby("time")["distance"].first()
        axis.plot(rows.index.to_numpy(), rows.to_numpy(), color=colours[proxy], label=_NAMES[proxy])
    log_axis(axis, "x", "y")
    axis.set_ylabel(r"$E|f - g| + \hat E|f - g|$")
    axis.set_title("distance from the network")
    axis.legend(loc="lower right", title="proxy")


def _draw_best(axis: Axes, table: pd.DataFrame, proxies: list[str]) -> None:
    colours = category_colours(proxies)
    for proxy in proxies:
        rows = table[table["proxy"] == proxy].groupby("time")["best_bound"].first()
        axis.plot(rows.index.to_numpy(), rows.to_numpy(), color=colours[proxy])
    _guess_line(axis)
    axis.set_xscale("log")
    axis.set_ylim(0.0, _TOP)
    axis.set_title("bound at the best $\\gamma$")


def _draw_bounds(axis: Axes, rows: pd.DataFrame, title: str) -> None:
    """The bound for every gamma (green, the smallest of all bold), the network's risks, its loss, the baselines."""
    shades = sequential_colours(rows["gamma"], colormap="Greens_r")
    for gamma, own in rows.groupby("gamma"):
        axis.plot(own["time"], own["bound"].where(own["bound"] <= 2 * _TOP), color=shades[gamma], linewidth=0.8)
        axis.plot(own["time"], own["margin_risk"], "--", color=PAPER, linewidth=0.5, alpha=0.6)
    once = rows.groupby("time")[["best_bound", "train_risk", "test_risk", "loss"]].first()
    time = once.index.to_numpy()
    axis.plot(time, once["best_bound"].to_numpy(), color=GREEN, linewidth=2.4)
    axis.plot(time, once["test_risk"].to_numpy(), color=BLACK)
    axis.plot(time, once["train_risk"].to_numpy(), "--", color=BLACK, linewidth=1.2)
    axis.plot(time, once["loss"].to_numpy(), color=PURPLE)
    _guess_line(axis)
    axis.axhline(float(rows["linear_loss"].iloc[0]), color=_BROWN, linestyle="--", linewidth=1.0)
    axis.axhline(float(rows["linear_risk"].iloc[0]), color=VERMILION, linestyle="--", linewidth=1.0)
    axis.set_xscale("log")
    axis.set_ylim(0.0, _TOP)
    axis.set_title(title)


def _guess_line(axis: Axes) -> None:
    axis.axhline(0.5, color=PAPER, linestyle=":", linewidth=1.2)


def _bound_handles() -> list[Line2D]:
    return [
        Line2D([], [], color=GREEN, linewidth=2.4, label=r"bound, best $\gamma$"),
        Line2D([], [], color=GREEN, linewidth=0.8, label=r"bound, each $\gamma$"),
        Line2D([], [], color=PAPER, linestyle="--", linewidth=0.6, label="train margin risk"),
        Line2D([], [], color=BLACK, label="test risk"),
        Line2D([], [], color=BLACK, linestyle="--", linewidth=1.2, label="train risk"),
        Line2D([], [], color=PURPLE, label="train loss"),
        Line2D([], [], color=PAPER, linestyle=":", label="zero model"),
        Line2D([], [], color=_BROWN, linestyle="--", linewidth=1.0, label="loss of best linear model"),
        Line2D([], [], color=VERMILION, linestyle="--", linewidth=1.0, label="risk of best linear model"),
    ]
