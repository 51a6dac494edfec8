"""`tangentbench list`: every artifact and what it costs."""

from __future__ import annotations

import click
from rich.text import Text

from tangentbench.cli.examples import examples
from tangentbench.cli.output import duration, json_option, open_project, print_json, print_table
from tangentbench.config import SCALES
from tangentbench.suite.catalogue import Artifact
from tangentbench.suite.costs import MODEL, Estimate, estimate, load_unit_costs


@click.command(
    epilog=examples("tangentbench list", "tangentbench list conditioning", "tangentbench list --json | jq '.[].name'")
)
@click.argument("targets", nargs=-1)
@json_option
def command(targets: tuple[str, ...], as_json: bool) -> None:
    """List every artifact with its cost at each scale (core time of one run).

    ≈ marks a guess from a recorded run at a smaller scale, for an artifact without a work model.
    """
    paths, catalogue = open_project()
    prices = load_unit_costs(paths)
    chosen = catalogue.select(targets or ("all",))
    costs = {
        one.name: {scale: estimate(one, scale, prices, paths, catalogue.used_by(one, scale)) for scale in SCALES}
        for one in chosen
    }
    if as_json:
        print_json([record(one, costs[one.name]) for one in chosen])
        return
    rows: list[tuple[str | Text, ...]] = [
        (
            Text(one.name, style="bold"),
            one.kind,
            *(cost_cell(costs[one.name][scale]) for scale in SCALES),
            one.reference,
            one.title,
        )
        for one in chosen
    ]
    print_table(f"{len(chosen)} artifacts", ("artifact", "kind", *SCALES, "in the paper", "shows"), rows, right="--rrr")


def cost_cell(cost: Estimate) -> str:
    if not cost.known:
        return "unknown"
    return duration(cost.core_hours) if cost.basis == MODEL else f"≈ {duration(cost.core_hours)}"


def record(artifact: Artifact, costs: dict[str, Estimate]) -> dict[str, object]:
    return {
        "name": artifact.name,
        "study": artifact.study,
        "kind": artifact.kind,
        "origin": artifact.origin,
        "paper": artifact.reference,
        "title": artifact.title,
        "cost": {scale: cost.as_record() for scale, cost in costs.items()},
    }
