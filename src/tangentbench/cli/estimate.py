"""`tangentbench estimate`: what a target takes, before anything runs."""

from __future__ import annotations

import click

from tangentbench.cli.examples import examples
from tangentbench.cli.output import (
    chosen_scale,
    duration,
    json_option,
    number,
    open_project,
    print_json,
    print_table,
    scale_option,
)
from tangentbench.suite.costs import MODEL, Estimate, estimate, load_unit_costs, total


@click.command(
    epilog=examples("tangentbench estimate npk_fig6 --scale paper", "tangentbench estimate all --scale cpu --json")
)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@scale_option
@json_option
def command(targets: tuple[str, ...], scale: str | None, as_json: bool) -> None:
    """Estimate core-hours, GPU-hours, memory and disk of artifacts, studies or `all` from measured unit costs.

    Artifacts whose tables a target needs are listed too: they are built first. The core time of an artifact without a
    work model is a guess from its recorded run at a smaller scale, or unknown.
    """
    paths, catalogue = open_project()
    scale = chosen_scale(paths, scale)
    prices = load_unit_costs(paths)
    built = catalogue.with_used(catalogue.select(targets), scale)
    costs = {one.name: estimate(one, scale, prices, paths, catalogue.used_by(one, scale)) for one in built}
    whole = total(costs.values())
    unknown = [name for name, cost in costs.items() if not cost.known]
    recorded = {name: cost.basis for name, cost in costs.items() if cost.known and cost.basis != MODEL}
    if as_json:
        parts = {name: cost.as_record() for name, cost in costs.items()}
        print_json({**whole.as_record(), "scale": scale, "artifacts": parts, "not_estimated": unknown})
        return
    rows = [(name, *cells(cost)) for name, cost in costs.items()]
    if len(rows) > 1:
        rows.append(("in all", *cells(whole)))
    columns = ("target", "core time", "GPU time", "memory, GiB", "disk, GiB")
    print_table(f"scale {scale}", columns, rows, right="-rrrr")
    for name, basis in recorded.items():
        click.echo(f"{name} has no work model; its core time is a guess: {basis}")
    if unknown:
        click.echo(f"unknown (no work model and no run at a smaller scale): {', '.join(unknown)}")


def cells(cost: Estimate) -> tuple[str, str, str, str]:
    return duration(cost.core_hours), duration(cost.gpu_hours), number(cost.memory_gib, 2), number(cost.disk_gib, 2)
