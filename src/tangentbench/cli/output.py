"""Shared by the commands: options, JSON for machines, tables for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tangentbench.claims.decision import FAILED, HELD, NOT_RUN, NOT_TESTABLE
from tangentbench.config import SCALES, load_settings
from tangentbench.paths import Paths, find_root
from tangentbench.suite.catalogue import Catalogue, load_catalogue

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
scale_option = click.option(
    "--scale", type=click.Choice(SCALES), default=None, help="Which scale; config/config.yaml's if not given."
)

STATE_STYLES = {HELD: "green", FAILED: "bold red", NOT_TESTABLE: "yellow", NOT_RUN: "dim"}
STATE_SIGNS = {HELD: "✔", FAILED: "✘", NOT_TESTABLE: "≈", NOT_RUN: "·"}


def open_project() -> tuple[Paths, Catalogue]:
    paths = Paths(find_root())
    return paths, load_catalogue(paths)


def chosen_scale(paths: Paths, scale: str | None) -> str:
    return scale or str(load_settings(paths)["scale"])


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, right: str = "") -> None:
    """A table in the terminal; `right` holds an r for every column to be set flush right, e.g. '--rr'."""
    table = Table(title=title, title_justify="left", header_style="bold", title_style="bold")
    for position, column in enumerate(columns):
        flush_right = right[position : position + 1] == "r"
        table.add_column(column, justify="right" if flush_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def console() -> Console:
    plain = Console()
    return plain if plain.is_terminal else Console(width=160)


def state_text(state: str) -> Text:
    return Text(f"{STATE_SIGNS[state]} {state}", style=STATE_STYLES[state])


def number(value: float | None, digits: int = 4) -> str:
    return "–" if value is None else f"{value:.{digits}g}"


def duration(hours: float | None) -> str:
    """Hours in the unit a person would use."""
    if hours is None:
        return "–"
    seconds = hours * 3600
    for limit, size, unit in ((90, 1, "s"), (90 * 60, 60, "min"), (72 * 3600, 3600, "h"), (730 * 86400, 86400, "d")):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / (365.25 * 86400):.3g} y"
