"""How a matrix is cut into tiles: known from the numbers of inputs alone, before anything is computed."""

from __future__ import annotations

Key = tuple[int, int]
"""(row block, column block) of a tile."""


def regular_edges(count: int, tile: int, first: int = 0) -> tuple[int, ...]:
    """Cuts every `tile` inputs from `first` on: first, first + tile, ..., count."""
    return (*range(first, count, tile), count)


def piece_keys(row_blocks: int, column_blocks: int, symmetric: bool) -> list[Key]:
    """Every (i, j) of a grid, or those with j <= i of a symmetric one."""
    return [(i, j) for i in range(row_blocks) for j in range(i + 1 if symmetric else column_blocks)]


def tile_name(key: Key) -> str:
    """00003-00001: the name of a tile's file, without its ending."""
    return f"{key[0]:05d}-{key[1]:05d}"


def tile_key(name: str) -> Key:
    row, column = name.split("-")
    return int(row), int(column)
