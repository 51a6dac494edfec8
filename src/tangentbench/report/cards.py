"""What the gallery shows of an artifact, gathered from the catalogue and from the files that were built."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tangentbench.atomic import read_json
from tangentbench.claims.decision import FAILED, STATES, Verdict
from tangentbench.claims.verdicts import table_of
from tangentbench.errors import ResultUnreadable
from tangentbench.paths import Paths
from tangentbench.report import wording
from tangentbench.report.comparison import ComparisonRow, compare
from tangentbench.suite.catalogue import Artifact

SMALL_TABLE_ROWS = 100
ROWS_SHOWN = 24
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_HEADER_BYTES = 24


@dataclass(frozen=True)
class Picture:
    """A PNG with its size in pixels, so that the page does not jump while it loads."""

    link: str
    width: int
    height: int
    alt: str


@dataclass(frozen=True)
class DataTable:
    """The first rows of a tidy table, as text; `numeric` says which columns align to the right."""

    columns: list[str]
    numeric: list[bool]
    rows: list[list[str]]
    total_rows: int


@dataclass(frozen=True)
class Card:
    artifact: Artifact
    verdicts: list[Verdict]
    comparison: list[ComparisonRow]
    picture: Picture | None
    data: DataTable | None
    provenance: Mapping[str, Any] | None
    links: list[tuple[str, str]]
    command: str
    note: str

    @property
    def states(self) -> list[str]:
        """The states its claims are in, each once."""
        return [state for state in STATES if any(verdict.state == state for verdict in self.verdicts)]

    @property
    def failures(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.state == FAILED]

    @property
    def built(self) -> bool:
        return bool(self.links)


def make_card(
    artifact: Artifact, verdicts: list[Verdict], paths: Paths, scale: str, defaults: Mapping[str, Any]
) -> Card:
    """Gather one artifact; `defaults` is config.yaml, from which the rebuilding command may deviate."""
    table = table_of(paths, scale, artifact)
    provenance = read_provenance(paths.provenance(scale, artifact.study, artifact.name))
    return Card(
        artifact=artifact,
        verdicts=verdicts,
        comparison=compare(artifact, table),
        picture=picture_of(artifact, paths, scale),
        data=data_table(table) if table is not None and shows_data(artifact, table) else None,
        provenance=provenance,
        links=links_of(artifact, paths, scale),
        command=command_of(artifact, scale, provenance, defaults),
        note=artifact.note_at(scale),
    )


def relative_link(paths: Paths, scale: str, file: Path) -> str:
    """`file` as seen from the gallery page."""
    return Path(os.path.relpath(file, paths.scale(scale))).as_posix()


def links_of(artifact: Artifact, paths: Paths, scale: str) -> list[tuple[str, str]]:
    """Label and address of every file of the artifact that is there."""
    place = (scale, artifact.study, artifact.name)
    files = {
        "PDF": paths.figure(*place, "pdf"),
        "PNG": paths.figure(*place, "png"),
        "CSV": paths.csv(*place),
        "Parquet": paths.table(*place),
        "Provenance": paths.provenance(*place),
    }
    return [(label, relative_link(paths, scale, file)) for label, file in files.items() if file.is_file()]


def picture_of(artifact: Artifact, paths: Paths, scale: str) -> Picture | None:
    file = paths.figure(scale, artifact.study, artifact.name, "png")
    if not file.is_file():
        return None
    width, height = png_size(file)
    alt = f"{artifact.title}. {wording.first_sentence(artifact.caption)}"
    return Picture(relative_link(paths, scale, file), width, height, alt)


def png_size(file: Path) -> tuple[int, int]:
    with file.open("rb") as stream:
        header = stream.read(PNG_HEADER_BYTES)
    if len(header) < PNG_HEADER_BYTES or not header.startswith(PNG_SIGNATURE):
        raise ResultUnreadable(file, "it is no PNG picture")
    width, height = struct.unpack(">II", header[16:24])
    return width, height


def read_provenance(file: Path) -> Mapping[str, Any] | None:
    if not file.is_file():
        return None
    record = read_json(file)
    if not isinstance(record, dict):
        raise ResultUnreadable(file, "it holds no provenance record")
    return record


def shows_data(artifact: Artifact, table: pd.DataFrame) -> bool:
    return artifact.kind == "table" or len(table) <= SMALL_TABLE_ROWS


def data_table(table: pd.DataFrame) -> DataTable:
    head = table.head(ROWS_SHOWN)
    rows = [[wording.cell(plain(value)) for value in row] for row in head.itertuples(index=False, name=None)]
    numeric = [pd.api.types.is_numeric_dtype(table[name]) for name in table.columns]
    return DataTable([str(name) for name in table.columns], numeric, rows, len(table))


def plain(value: Any) -> Any:
    """A NumPy scalar or pandas' missing value as Python's own."""
    if value is pd.NA or value is pd.NaT:
        return None
    return value.item() if isinstance(value, np.generic) else value


def command_of(
    artifact: Artifact, scale: str, provenance: Mapping[str, Any] | None, defaults: Mapping[str, Any]
) -> str:
    """The one command that builds the artifact again as it is shown."""
    wanted = {"scale": scale, "seed": (provenance or {}).get("seed", defaults["seed"])}
    changes = " ".join(f"{key}={value}" for key, value in wanted.items() if value != defaults[key])
    return f"snakemake --cores 2 {artifact.name}" + (f" --config {changes}" if changes else "")
