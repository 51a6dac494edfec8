"""`tangentbench bound`: how far a nearly linear network's test risk can lie above its train margin risk, untrained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import click
import numpy as np

from tangentbench.cli.examples import examples
from tangentbench.cli.output import json_option, number, print_json, print_table
from tangentbench.theory.nearly_linear import (
    DERIVED,
    MENDED,
    PRINTED_CHAPTER_1,
    PRINTED_CHAPTER_6,
    Bound,
    Proxy,
    Setting,
    blow_up_time,
    bound,
    learning_time,
)

_READINGS = {
    "derived": DERIVED,
    "mended": MENDED,
    "printed-6.5.2": PRINTED_CHAPTER_6,
    "printed-1.8.2": PRINTED_CHAPTER_1,
}


class _Times(click.ParamType[list[float]]):
    """One time, or several with commas between."""

    name = "TIME[,TIME...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[float]:
        try:
            times = [float(one) for one in str(value).split(",")]
        except ValueError:
            self.fail(f"'{value}' is not a number or a list of numbers with commas between, e.g. 4,8,12", param, ctx)
        if not all(math.isfinite(one) and one >= 0 for one in times):
            self.fail(f"'{value}': a training time is a finite number of at least 0", param, ctx)
        return times


@click.command(
    epilog=examples(
        "tangentbench bound --depth 2 --dim 49 --samples 60000 --epsilon 0.001 --beta 0.001 --s 0.5 --time 12",
        "tangentbench bound --dim 49 --samples 60000 --epsilon 0.01 --beta 0.001 --s 0.5 --time 2,4,6 --json",
    )
)
@click.option("--depth", type=int, default=2, show_default=True, help="Layers of weights, L.")
@click.option("--dim", type=int, required=True, help="Input dimension d.")
@click.option("--samples", type=int, required=True, help="Training examples m.")
@click.option("--epsilon", type=float, required=True, help="Nonlinearity: the negative slope is 1 - epsilon.")
@click.option("--beta", type=float, required=True, help="Spectral norm of every layer at the start.")
@click.option("--s", type=float, required=True, help="Norm of Y X~^T / m, at most 1: how much a linear model explains.")
@click.option("--rho", type=float, default=1.0, show_default=True, help="Root of the input layer's stable rank.")
@click.option("--kappa", type=int, default=2, show_default=True, help="Order of the proxy model, 1 or 2.")
@click.option("--precision", type=int, default=32, show_default=True, help="Bits of a weight, p.")
@click.option(
    "--delta", "failure_probability", type=float, default=0.01, show_default=True, help="Chance that it fails."
)
@click.option("--gamma", type=float, default=None, help="Margin; beta^L if not given.")
@click.option("--time", "times", type=_Times(), multiple=True, help="Training time; may be repeated or a list.")
@click.option("--alpha", type=float, default=0.9, show_default=True, help="Share learnt at the linear learning time.")
@click.option(
    "--reading",
    type=click.Choice(list(_READINGS)),
    default="derived",
    show_default=True,
    help="How the theorem is read.",
)
@json_option
def command(
    depth: int,
    dim: int,
    samples: int,
    epsilon: float,
    beta: float,
    s: float,
    rho: float,
    kappa: int,
    precision: int,
    failure_probability: float,
    gamma: float | None,
    times: tuple[list[float], ...],
    alpha: float,
    reading: str,
    as_json: bool,
) -> None:
    """Bound the generalisation gap of a nearly linear network before any training (thesis, theorem 6.5.2).

    The test risk at time t is at most the train risk with margin gamma plus `gap` = `upsilon` + `deviation`: the proxy
    model's own gap, and Delta epsilon^kappa / gamma, how far the network can stray from the proxy over the margin. A
    sum below 0.5 beats guessing. Without --time the bound is taken when a linear network has learnt the share alpha.
    With several times, --json prints a list.
    """
    setting = Setting(depth, epsilon, beta, rho, s)
    chosen = [time for group in times for time in group] or [learning_time(alpha, beta, s, depth)]
    margin = beta**depth if gamma is None else gamma
    parts = bound(
        chosen,
        setting,
        Proxy(kappa, dim, precision),
        samples=samples,
        failure_probability=failure_probability,
        gamma=margin,
        reading=_READINGS[reading],
    )
    constants = {
        "gamma": margin,
        "s_bar": setting.s_bar,
        "s_hat": setting.s_hat,
        "beta_bar": setting.beta_bar(_READINGS[reading]),
        "blow_up_time": _plain(blow_up_time(setting, _READINGS[reading])),
        "learning_time": learning_time(alpha, beta, s, depth) if beta**depth < alpha * s else None,
    }
    if as_json:
        objects = [{**_record(parts, index), **constants} for index in range(len(chosen))]
        print_json(objects if len(objects) > 1 else objects[0])
    else:
        _print(parts, constants)


def _print(parts: Bound, constants: Mapping[str, float | None]) -> None:
    rows = [[_shown(_record(parts, index)[name]) for name in _COLUMNS] for index in range(len(parts.time))]
    print_table("bound on test risk minus train margin risk", list(_COLUMNS.values()), rows, right="r" * len(_COLUMNS))
    click.echo(f"upsilon {number(parts.upsilon)}   phi {number(parts.phi)}")
    click.echo("   ".join(f"{name} {_shown(value)}" for name, value in constants.items()))
    best = float(np.min(parts.gap))
    verdict = "below 0.5: can beat guessing" if best < 0.5 else "0.5 or more: says nothing beyond guessing"
    click.echo(f"smallest gap {_shown(best)}, {verdict}")


_COLUMNS = {"time": "time", "u": "u", "v": "v", "delta": "Delta", "deviation": "deviation", "gap": "gap"}


def _record(parts: Bound, index: int) -> dict[str, float | None]:
    along = ("time", "u", "v", "delta", "deviation", "gap")
    values = {name: _plain(float(getattr(parts, name)[index])) for name in along}
    return {"upsilon": parts.upsilon, "phi": parts.phi, **values}


def _plain(value: float) -> float | None:
    """JSON has no infinity: null stands for it."""
    return value if math.isfinite(value) else None


def _shown(value: float | None) -> str:
    return "infinite" if value is None or not math.isfinite(value) else f"{value:.4g}"
