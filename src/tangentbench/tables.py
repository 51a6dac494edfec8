"""Tidy tables on disk: parquet for machines, CSV for people; the same bytes for the same rows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tangentbench.errors import ResultUnreadable
from tangentbench.files import written_whole


def write_table(table: pd.DataFrame, path: Path) -> None:
    with written_whole(path) as temporary:
        table.reset_index(drop=True).to_parquet(temporary, engine="pyarrow", compression="zstd", index=False)


def write_csv(table: pd.DataFrame, path: Path) -> None:
    with written_whole(path) as temporary:
        table.to_csv(temporary, index=False)


def read_table(path: Path) -> pd.DataFrame:
    """The table at `path`; one clear error where the file is damaged."""
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ResultUnreadable(path, str(error).splitlines()[0]) from error


def read_if_there(path: Path) -> pd.DataFrame | None:
    return read_table(path) if path.is_file() else None
