"""The cells of a table as settings: "cntk_v 3 4 6, cntk_gap 3" are columns and depths that one job computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tangentbench.errors import TangentbenchError, UnknownName


def parse_cells(cells: Sequence[str], columns: Iterable[str]) -> list[tuple[str, int]]:
    """("cntk_v", 3) and ("cntk_v", 4) of "cntk_v 3 4"."""
    columns = list(columns)
    pairs = []
    for cell in (part for job in cells for part in job.split(",")):
        column, *depths = cell.split() or [""]
        if column not in columns:
            raise UnknownName("column", column, columns)
        if not depths or not all(depth.isdigit() for depth in depths):
            raise TangentbenchError(f"the cell '{cell}' is not a column and its depths: write it like '{column} 3 4 6'")
        pairs += [(column, int(depth)) for depth in depths]
    return pairs
