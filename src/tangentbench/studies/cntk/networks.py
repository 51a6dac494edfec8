"""The finite networks of the study as descriptions, for what trains them and for what prices them: no torch here."""

from __future__ import annotations

from tangentbench.networks.ntk_cnn_spec import NtkCnnSpec
from tangentbench.studies.cntk.cells import Cell
from tangentbench.studies.cntk.settings import Convergence, Table1, Table2


def searched_network(settings: Table1, cell: Cell, channels: int, classes: int, colours: int) -> NtkCnnSpec:
    """A network of Table 1, with one output per class."""
    return NtkCnnSpec(
        cell.column.network,
        cell.depth,
        channels,
        (settings.images.side, settings.images.side, colours),
        classes,
        settings.layers.filter_size,
        settings.layers.trains_first_and_last(cell.column.pooling),
    )


def random_feature_network(settings: Table2, cell: Cell, colours: int) -> NtkCnnSpec:
    """The network of Table 2 whose gradients are the random features."""
    every_layer = settings.features_of == "all_layers"
    return NtkCnnSpec(
        cell.column.network,
        cell.depth,
        settings.channels,
        (settings.images.side, settings.images.side, colours),
        filter_size=settings.layers.filter_size,
        train_first_last=every_layer or settings.layers.trains_first_and_last(cell.column.pooling),
    )


def wide_network(settings: Convergence, kind: str, depth: int, width: int, colours: int) -> NtkCnnSpec:
    """A network of Theorems 3.1 and 3.2; fully connected ones and vanilla ones train all layers."""
    return NtkCnnSpec(
        kind,
        depth,
        width,
        (settings.image_side, settings.image_side, colours),
        filter_size=settings.filter_size,
        train_first_last=kind != "cnn_gap" or settings.gap_trains_first_and_last,
    )
