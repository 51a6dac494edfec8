"""`tangentbench check`: the state of every claim; exit code 1 if one failed."""

from __future__ import annotations

import click

from tangentbench.claims.decision import STATES
from tangentbench.claims.verdicts import count_states, failed, verdicts
from tangentbench.cli.examples import examples
from tangentbench.cli.output import (
    chosen_scale,
    json_option,
    open_project,
    print_json,
    print_table,
    scale_option,
    state_text,
)
from tangentbench.cli.show import spread


@click.command(
    epilog=examples(
        "tangentbench check", "tangentbench check npk --scale cpu", "tangentbench check --json --state failed"
    )
)
@click.argument("targets", nargs=-1)
@scale_option
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only claims in this state.")
@json_option
@click.pass_context
def command(
    context: click.Context, targets: tuple[str, ...], scale: str | None, states: tuple[str, ...], as_json: bool
) -> None:
    """Decide the claims from the results that are there. Exit code 1 if one failed."""
    paths, catalogue = open_project()
    scale = chosen_scale(paths, scale)
    decided = verdicts(catalogue, paths, scale, catalogue.select(targets or ("all",)))
    shown = [one for one in decided if not states or one.state in states]
    if as_json:
        print_json([one.as_record() for one in shown])
    else:
        rows = [
            (state_text(one.state), one.claim.artifact, one.claim.statement, spread(one.measured, one.half_width))
            for one in shown
        ]
        counts = count_states(decided)
        title = f"scale {scale}: " + ", ".join(f"{count} {state}" for state, count in counts.items())
        print_table(title, ("state", "artifact", "claim", "measured"), rows)
    context.exit(1 if failed(decided) else 0)
