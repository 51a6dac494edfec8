"""The cells of Tables 1 and 2. In the catalogue "cntk_v 3 4 6, cntk_gap 3" are the columns and depths of one job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from tangentbench.errors import UnknownName

Pooling = Literal["flatten", "gap"]
NetworkColumn = Literal["cnn_v", "cnn_gap"]
KernelColumn = Literal["cntk_v", "cntk_v_2k", "cntk_gap", "cntk_gap_2k"]
Table1Column = Literal[NetworkColumn, KernelColumn]

SHALLOWEST = 2
"""Depth counts the convolutions, of which there is at least one, and the fully connected layer."""


@dataclass(frozen=True)
class Column:
    """A column of a table: what predicts in it, and whether its positions are averaged before the last layer."""

    name: str
    method: Literal["network", "kernel", "random features"]
    pooling: Pooling

    @property
    def network(self) -> NetworkColumn:
        """The finite network with this pooling."""
        return "cnn_gap" if self.pooling == "gap" else "cnn_v"


@dataclass(frozen=True)
class Cell:
    column: Column
    depth: int


_COLUMNS = (
    Column("cnn_v", "network", "flatten"),
    Column("cnn_gap", "network", "gap"),
    Column("cntk_v", "kernel", "flatten"),
    Column("cntk_v_2k", "kernel", "flatten"),
    Column("cntk_gap", "kernel", "gap"),
    Column("cntk_gap_2k", "kernel", "gap"),
    Column("rf_v", "random features", "flatten"),
    Column("rf_gap", "random features", "gap"),
)
_TABLE2 = ("rf_v", "rf_gap", "cntk_v", "cntk_gap")


class _Cells(tuple[Cell, ...]):
    """The cells of one job."""

    columns: ClassVar[Mapping[str, Column]]

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The cells that `text` names; a ValueError says how to write it."""
        cells = []
        for part in str(text).split(","):
            name, *depths = part.split() or [""]
            if name not in cls.columns:
                raise ValueError(str(UnknownName("column", name, cls.columns)))
            if not depths or not all(depth.isdigit() and int(depth) >= SHALLOWEST for depth in depths):
                raise ValueError(
                    f"'{part.strip()}' is not a column and its depths, from {SHALLOWEST} on: "
                    f"write it like '{name} 3 4 6'"
                )
            cells += [Cell(cls.columns[name], int(depth)) for depth in depths]
        return cls(cells)


class Table1Cells(_Cells):
    columns: ClassVar = {column.name: column for column in _COLUMNS if column.method != "random features"}


class Table2Cells(_Cells):
    columns: ClassVar = {column.name: column for column in _COLUMNS if column.name in _TABLE2}
