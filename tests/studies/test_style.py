"""The shared look: grids, colours, legends."""

import io
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from tangentbench.studies.style import (
    PALETTE,
    category_colours,
    figure_grid,
    legend_outside,
    log_axis,
    sequential_colours,
    value_ticks,
)


def test_grid_is_two_dimensional_lettered_and_unknown_to_pyplot() -> None:
    before = plt.get_fignums()
    fig, axes = figure_grid(2, 2)
    assert axes.shape == (2, 2)
    assert [axis.get_title(loc="left") for axis in axes.ravel()] == list("abcd")
    assert plt.get_fignums() == before
    for kind in ("png", "pdf"):
        stream = io.BytesIO()
        fig.savefig(stream, format=kind)
        assert stream.getbuffer().nbytes > 1000


def test_a_single_panel_has_no_letter() -> None:
    _, axes = figure_grid()
    assert axes[0, 0].get_title(loc="left") == ""


def test_sequential_colours_follow_the_order_of_the_values() -> None:
    colours = sequential_colours([20, 2, 8, 2])
    assert list(colours) == [2, 8, 20]
    brightness = [sum(int(colour[i : i + 2], 16) for i in (1, 3, 5)) for colour in colours.values()]
    assert brightness == sorted(brightness)
    assert len(sequential_colours([5])) == 1


def test_category_colours_differ_and_keep_their_order() -> None:
    colours = category_colours(["b", "a", "b", "c"])
    assert list(colours) == ["b", "a", "c"]
    assert list(colours.values()) == list(PALETTE[:3])


@pytest.mark.parametrize("where", ["right", "below", "above"])
def test_figure_legend_names_each_curve_once_and_lies_beside_the_panels(where: Any) -> None:
    fig, axes = figure_grid(1, 2)
    for axis in axes[0]:
        axis.plot([0, 1], label="ours")
        axis.plot([1, 0], label="paper")
    legend = legend_outside(fig, where=where)
    assert [text.get_text() for text in legend.get_texts()] == ["ours", "paper"]
    fig.canvas.draw()
    assert not any(legend.get_window_extent().overlaps(axis.get_window_extent()) for axis in axes[0])


def test_axis_legend_lies_outside_its_axis() -> None:
    fig, axes = figure_grid()
    axes[0, 0].plot([0, 1], label="ours")
    legend = legend_outside(axes[0, 0])
    fig.canvas.draw()
    assert not legend.get_window_extent().overlaps(axes[0, 0].get_window_extent())


def test_log_axis_with_ticks_at_the_settings() -> None:
    _, axes = figure_grid()
    axis = axes[0, 0]
    axis.plot([25, 500], [1, 2])
    log_axis(axis, "x")
    value_ticks(axis, "x", [500, 25])
    assert axis.get_xscale() == "log"
    np.testing.assert_array_equal(axis.get_xticks(), [25, 500])
    assert [label.get_text() for label in axis.get_xticklabels()] == ["25", "500"]


@pytest.mark.parametrize(
    ("limits", "expected"), [((0.04, 0.4), "0.1"), ((0.025, 0.48), "0.1"), ((0.001, 10.0), "$\\mathdefault{10^{-1}}$")]
)
def test_powers_are_plain_where_plain_numbers_stand_beside_them(limits: Any, expected: str) -> None:
    _, axes = figure_grid(1, 1)
    axis = axes[0, 0]
    log_axis(axis, "y")
    axis.set_ylim(limits)
    assert axis.yaxis.get_major_formatter()(0.1) == expected
