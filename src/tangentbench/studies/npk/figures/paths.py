"""Figure 1: the toy network, its paths, the active sub-network of each example, activities and overlaps."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from tangentbench.studies.registry import figure
from tangentbench.studies.style import BLUE, DPI, GREEN, ORANGE, VERMILION, panel_letters

if TYPE_CHECKING:
    from tangentbench.suite.catalogue import Artifact

INK, QUIET = "#30343A", "#CBD0D6"
PATH_COLOURS = (BLUE, GREEN, ORANGE)
REDS = LinearSegmentedColormap.from_list("to_vermilion", ["#FFFFFF", VERMILION])
LAYER_GAP, RADIUS = 1.6, 0.3


class Node(NamedTuple):
    layer: int
    """0 is the input layer."""
    number: int
    """From 1, top to bottom."""


Edge = tuple[Node, Node]


@figure("npk_fig1")
def toy_network(table: pd.DataFrame, artifact: Artifact) -> Figure:
    activity = table[table["quantity"] == "activity"]
    gates = table[table["quantity"] == "gate"]
    network = Drawing(activity)
    examples = sorted(activity["example"].unique())
    bundles = list(activity[activity["example"] == examples[0]].groupby(["input", "unit_1"]))

    fig = Figure(figsize=(12.0, 7.9), dpi=DPI, layout="constrained")
    FigureCanvasAgg(fig)
    top, middle, bottom = fig.subfigures(3, 1, squeeze=False, height_ratios=[3.1, 2.6, 2.0])[:, 0]
    left, right = top.subfigures(1, 2, squeeze=False, width_ratios=[1.15, 2.0])[0]
    whole = left.subplots()
    inputs = network.layers[0]
    small = right.subplots(inputs, len(bundles) // inputs, squeeze=False).ravel()
    active = middle.subplots(1, len(examples), squeeze=False).ravel()
    matrix, overlap = bottom.subplots(1, 2, width_ratios=[4.6, 1.0])

    network.draw(whole, texts=network.names())
    whole.set_title(f"2 hidden layers of gates, {activity['path'].max()} paths")
    for axis, (_, bundle) in zip(small, bundles, strict=True):
        draw_bundle(axis, network, bundle)
    for axis, example in zip(active, examples, strict=True):
        own = activity[activity["example"] == example]
        draw_active(axis, network, own, gates[gates["example"] == example])
        axis.set_title(f"example $x_{example}$: {int(own['value'].sum())} active paths")
    draw_activity(matrix, activity)
    draw_overlap(overlap, table[table["quantity"] == "Lambda counted"])
    panel_letters([whole, *small, *active, matrix, overlap])
    return fig


class Drawing:
    """The network of an activity table as circles and lines."""

    def __init__(self, activity: pd.DataFrame) -> None:
        self.columns = ["input", *sorted(column for column in activity.columns if column.startswith("unit_"))]
        self.columns = [column for column in self.columns if activity[column].notna().any()]
        self.layers = [*(int(activity[column].max()) for column in self.columns), 1]
        self.edges = {edge for nodes in self.paths(activity) for edge in itertools.pairwise(nodes)}

    def paths(self, rows: pd.DataFrame) -> list[list[Node]]:
        """The nodes along each row's path, the output last."""
        return [
            [*(Node(layer, int(number)) for layer, number in enumerate(numbers)), Node(len(self.columns), 1)]
            for numbers in rows[self.columns].itertuples(index=False)
        ]

    def nodes(self) -> list[Node]:
        return [Node(layer, number) for layer, size in enumerate(self.layers) for number in range(1, size + 1)]

    def place(self, node: Node) -> tuple[float, float]:
        return node.layer * LAYER_GAP, (self.layers[node.layer] + 1) / 2 - node.number

    def names(self) -> dict[Node, str]:
        """x(i) at the inputs, l,i at the gates G(l, i), the output's sign at the end."""
        last = len(self.layers) - 1
        special = {0: "$x({})$", last: r"$\hat{{y}}$"}
        return {node: special.get(node.layer, f"{node.layer},{{}}").format(node.number) for node in self.nodes()}

    def draw(
        self,
        axis: Axes,
        *,
        coloured: Iterable[tuple[Edge, str]] = (),
        rings: Mapping[Node, str] | None = None,
        texts: Mapping[Node, str] | None = None,
        fontsize: float = 9.0,
    ) -> None:
        """All edges thin and grey, those in `coloured` bold above them; `rings` colours the circles it names."""
        for edge in self.edges:
            axis.plot(*self.line(edge), color=QUIET, linewidth=0.9, zorder=1)
        for edge, colour in coloured:
            axis.plot(*self.line(edge), color=colour, linewidth=2.6, zorder=2, solid_capstyle="round")
        for node in self.nodes():
            colour = (rings or {}).get(node, INK)
            bold = node in (rings or {})
            width = 2.0 if bold else 0.9
            ring = Circle(self.place(node), RADIUS, facecolor="white", edgecolor=colour, linewidth=width, zorder=3)
            axis.add_patch(ring)
            text = axis.text(*self.place(node), (texts or {}).get(node, ""), ha="center", va="center", zorder=4)
            text.set(fontsize=fontsize, color=colour, fontweight="bold" if bold else "normal")
        axis.set_axis_off()
        axis.set_aspect("equal")
        axis.set_xlim(-0.5, (len(self.layers) - 1) * LAYER_GAP + 0.5)
        half = (max(self.layers) - 1) / 2
        axis.set_ylim(-half - 0.45, half + 0.45)

    def line(self, edge: Edge) -> tuple[list[float], list[float]]:
        (x0, y0), (x1, y1) = map(self.place, edge)
        return [x0, x1], [y0, y1]


def draw_bundle(axis: Axes, network: Drawing, bundle: pd.DataFrame) -> None:
    """The paths through one input and one unit of the first layer; each is named where it leaves the last layer."""
    coloured, rings, texts = [], {}, {}
    for row, nodes, colour in zip(bundle["path"], network.paths(bundle), itertools.cycle(PATH_COLOURS)):
        *shared, last, output = nodes
        coloured += [(edge, INK) for edge in itertools.pairwise(shared)]
        coloured += [((shared[-1], last), colour), ((last, output), colour)]
        rings[last], texts[last] = colour, f"$p_{{{row}}}$"
    network.draw(axis, coloured=coloured, rings=rings, texts=texts, fontsize=7.0)
    axis.set_title(f"$p_{{{bundle['path'].min()}}}$ to $p_{{{bundle['path'].max()}}}$", fontsize=10)


def draw_active(axis: Axes, network: Drawing, activity: pd.DataFrame, gates: pd.DataFrame) -> None:
    """1/0 in the circles, the active sub-network in bold red."""
    paths = network.paths(activity[activity["value"] > 0])
    columns = (gates[name].astype(int) for name in ("layer", "unit", "value"))
    texts = {Node(layer, unit): f"{value}" for layer, unit, value in zip(*columns, strict=True)}
    names = network.names()
    ends = {node: names[node] for node in names if node not in texts}
    network.draw(
        axis,
        coloured=[(edge, VERMILION) for nodes in paths for edge in itertools.pairwise(nodes)],
        rings={node: VERMILION for nodes in paths for node in nodes},
        texts={**ends, **texts},
    )


def draw_activity(axis: Axes, activity: pd.DataFrame) -> None:
    """Examples by paths; a full cell is an active path, a frame marks paths active for the first two examples."""
    cells = activity.pivot(index="example", columns="path", values="value")
    axis.imshow(cells.to_numpy(dtype=float), cmap=REDS, vmin=0, vmax=1.25, aspect="auto")
    axis.set_xticks(range(cells.shape[1]), [f"$p_{{{path}}}$" for path in cells.columns])
    axis.set_yticks(range(cells.shape[0]), [f"$x_{example}$" for example in cells.index])
    for position in (cells.iloc[:2].min() > 0).to_numpy().nonzero()[0]:
        axis.add_patch(Rectangle((position - 0.5, -0.5), 1, 2, fill=False, edgecolor=INK, linewidth=2, zorder=3))
    between_cells(axis, *cells.shape)
    axis.set_title(r"activity $A(x_s, p)$; framed: active for $x_1$ and $x_2$")


def draw_overlap(axis: Axes, pairs: pd.DataFrame) -> None:
    cells = pairs.pivot(index="example", columns="other", values="value")
    counts = cells.to_numpy(dtype=float)
    axis.imshow(counts, cmap=REDS, vmin=0, vmax=1.4 * counts.max())
    for (row, column), count in np.ndenumerate(counts):
        axis.text(column, row, f"{count:g}", ha="center", va="center", fontsize=12, color=INK)
    axis.set_xticks(range(cells.shape[1]), [f"$x_{example}$" for example in cells.columns])
    axis.set_yticks(range(cells.shape[0]), [f"$x_{example}$" for example in cells.index])
    between_cells(axis, *cells.shape)
    axis.set_title(r"$\Lambda(s, s')$")


def between_cells(axis: Axes, rows: int, columns: int) -> None:
    """Thin lines between the cells of a matrix instead of through them."""
    axis.grid(False)
    axis.set_xticks([column - 0.5 for column in range(1, columns)], minor=True)
    axis.set_yticks([row - 0.5 for row in range(1, rows)], minor=True)
    axis.grid(True, which="minor", color=QUIET, linewidth=0.8)
    axis.tick_params(which="both", length=0)
