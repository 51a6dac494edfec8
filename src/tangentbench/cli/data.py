"""`tangentbench data`: what is here, what is missing, from where it would come."""

from __future__ import annotations

from pathlib import Path

import click

from tangentbench.cli.examples import examples
from tangentbench.cli.output import json_option, open_project, print_json, print_table
from tangentbench.config import load_settings
from tangentbench.datasets.prepare import availability


@click.command(epilog=examples("tangentbench data", "TANGENTBENCH_DATA=/mnt/sets tangentbench data --json"))
@json_option
def command(as_json: bool) -> None:
    """Show each data source: embedded, in the mirror, downloaded or missing, and where it would come from."""
    paths, _ = open_project()
    mirror = load_settings(paths).get("data_mirror")
    records = availability(paths, Path(mirror) if mirror else None)
    if as_json:
        print_json([record.as_record() for record in records])
        return
    rows = [(one.name, one.state, f"{one.bytes / 1e6:.1f}", one.where) for one in records]
    print_table("data sources", ("source", "state", "MB", "where"), rows, right="--r")
