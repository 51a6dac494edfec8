"""`tangentbench show`: one artifact, ours against the paper, and its claims."""

from __future__ import annotations

import click

from tangentbench.claims.verdicts import verdicts
from tangentbench.cli.examples import examples
from tangentbench.cli.output import (
    chosen_scale,
    console,
    json_option,
    number,
    open_project,
    print_json,
    print_table,
    scale_option,
    state_text,
)
from tangentbench.report.comparison import compare
from tangentbench.suite.table_io import read_if_there

ROUNDING = 1e-9


@click.command(epilog=examples("tangentbench show npk_fig6", "tangentbench show npk_fig6 --scale cpu --json"))
@click.argument("artifact")
@scale_option
@json_option
def command(artifact: str, scale: str | None, as_json: bool) -> None:
    """Show one artifact: what it is, ours against the paper's numbers, and the state of its claims."""
    paths, catalogue = open_project()
    scale = chosen_scale(paths, scale)
    one = catalogue.artifact(artifact)
    rows = compare(one, read_if_there(paths.table(scale, one.study, one.name)))
    decided = verdicts(catalogue, paths, scale, [one])
    built = paths.table(scale, one.study, one.name).is_file()
    if as_json:
        print_json(
            {
                "name": one.name,
                "study": one.study,
                "kind": one.kind,
                "paper": one.reference,
                "title": one.title,
                "caption": one.caption,
                "notes": one.notes,
                "scale": scale,
                "built": built,
                "settings": one.settings_at(scale),
                "comparison": [row.as_record() for row in rows],
                "claims": [verdict.as_record() for verdict in decided],
            }
        )
        return
    out = console()
    out.print(f"[bold]{one.name}[/bold]  {one.title}  [dim]({one.kind}; {one.reference})[/dim]")
    out.print(one.caption.strip(), style="dim")
    if not built:
        out.print(f"not built at scale {scale}: `tangentbench run {one.name} --scale {scale}`", style="yellow")
    if rows:
        cells = [
            (row.label, number(row.paper), spread(row.ours, row.ours_spread), number(row.difference, 3), row.unit)
            for row in rows
        ]
        print_table(
            f"ours against the paper, scale {scale}", ("", "paper", "ours", "difference", ""), cells, right="-rrr"
        )
    if decided:
        claims = [
            (state_text(one.state), one.claim.statement, spread(one.measured, one.half_width), one.reason)
            for one in decided
        ]
        print_table("claims", ("state", "claim", "measured", "why"), claims)
    if one.notes:
        out.print(one.notes.strip())


def spread(value: float | None, width: float | None) -> str:
    """A value with its spread, unless that is only rounding."""
    if value is None or not width or width < ROUNDING * abs(value):
        return number(value)
    return f"{number(value)} ± {number(width, 2)}"
