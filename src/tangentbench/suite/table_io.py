"""Tidy tables on disk: parquet for machines, CSV for people; the same bytes for the same rows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tangentbench.atomic import read_json, sha256, written_whole
from tangentbench.errors import ResultUnreadable


def write_table(table: pd.DataFrame, path: Path) -> None:
    with written_whole(path) as temporary:
        table.reset_index(drop=True).to_parquet(temporary, engine="pyarrow", compression="zstd", index=False)


def write_csv(table: pd.DataFrame, path: Path) -> None:
    with written_whole(path) as temporary:
        table.to_csv(temporary, index=False)


def read_table(path: Path) -> pd.DataFrame:
    """The table at `path`; one clear error where the file is damaged.

    Parquet alone would read some damaged files as other numbers, so the sum in the provenance beside it is compared.
    """
    expected = recorded_sum(path)
    if expected is not None and path.is_file() and sha256(path) != expected:
        raise ResultUnreadable(path, f"its bytes are not those that {path.with_suffix('.json').name} records")
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ResultUnreadable(path, str(error).splitlines()[0]) from error


def recorded_sum(path: Path) -> str | None:
    """The SHA-256 that the provenance beside a table records of it, or None where there is none."""
    provenance = path.with_suffix(".json")
    outputs = read_json(provenance).get("outputs", []) if provenance.is_file() else []
    return next((entry["sha256"] for entry in outputs if Path(entry["path"]).name == path.name), None)


def unfinished_table(path: Path) -> pd.DataFrame | None:
    """A piece of an unfinished table in a job's folder; None where it is missing or damaged."""
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except Exception:  # pyarrow's errors have no common class; the piece is measured again
        return None


def read_if_there(path: Path) -> pd.DataFrame | None:
    return read_table(path) if path.is_file() else None
