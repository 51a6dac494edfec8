"""The figures of section 2.9: stages timed over a list of sizes, and their power laws extrapolated."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pandas as pd
from tqdm import tqdm

from tangentbench.identity import WorkFolder
from tangentbench.studies.registry import Context, study
from tangentbench.studies.survey.measure.images import prepared
from tangentbench.studies.survey.measure.regimes import Regime, regime
from tangentbench.studies.survey.measure.stages import COMPILATION, GRAM, INFERENCE, INTEGRATION, regression_rows
from tangentbench.studies.survey.settings import AgainstImages, AgainstSide, Kernel, Way
from tangentbench.suite.table_io import unfinished_table, write_table
from tangentbench.theory.power_law import fit_power_law

SECONDS_PER_DAY = 86400.0
MEASURED_STAGES = (GRAM, INTEGRATION, INFERENCE)
ENTRY_RATIO = "entry ratio"
K = TypeVar("K", bound=str)
W = TypeVar("W", bound=str)


@study("survey_fig2_5")
@study("survey_fig2_6")
@study("survey_fig2_7")
def cost_against_images(context: Context, settings: AgainstImages) -> pd.DataFrame:
    """One row per kernel, way to compute it, training set size and stage; and one per power law at extrapolate_to."""
    side = settings.image_side
    largest = max(max(sizes) for sizes in settings.train_sizes.values())
    most = max(settings.test_images.values())
    images = prepared(context.dataset, train=largest, test=most, side=side, seed=context.seed)
    network = settings.architecture.network(settings.outputs(images.classes))

    def rows(kernel: Kernel, way: Way) -> Iterable[dict[str, Any]]:
        chosen = regime(settings, network, kernel, way, images.x_train.shape[1:], context)
        yield from _compilation_rows(chosen, images=0, side=side)
        for size in settings.train_sizes[way]:
            for row in regression_rows(chosen, images.first(size, settings.test_images[way]), settings):
                yield {"images": size, "side": side, **row}

    table = collected(context.work, settings.ways, rows)
    table = with_laws(table, "images", float(settings.extrapolate_to))
    return pd.concat([table, *entry_ratios(table, context.tables)], ignore_index=True)


@study("survey_fig2_8")
def cost_against_side(context: Context, settings: AgainstSide) -> pd.DataFrame:
    """One row per kernel, way to compute it, side and stage; and one per power law at extrapolate_to_side."""
    train = settings.train_images

    def rows(kernel: Kernel, way: Way) -> Iterable[dict[str, Any]]:
        for side in settings.sides[way]:
            test = settings.test_images[way]
            images = prepared(context.dataset, train=train, test=test, side=side, seed=context.seed)
            network = settings.architecture.network(settings.outputs(images.classes))
            chosen = regime(settings, network, kernel, way, images.x_train.shape[1:], context)
            yield from _compilation_rows(chosen, images=0, side=side)
            for row in regression_rows(chosen, images, settings):
                yield {"images": train, "side": side, **row}

    table = collected(context.work, settings.ways, rows)
    table = with_laws(table, "side", float(settings.extrapolate_to_side))
    # the Gram matrix of more images takes longer by the square of their number
    more = (settings.extrapolate_to_images / train) ** 2
    extrapolated = ~table["measured"] & (table["stage"] == GRAM)
    table.loc[extrapolated, "days"] = table.loc[extrapolated, "seconds"] * more / SECONDS_PER_DAY
    return table


def _compilation_rows(chosen: Regime, **place: int) -> list[dict[str, Any]]:
    if not chosen.preparation:
        return []
    return [{**place, "stage": COMPILATION, "seconds": chosen.preparation, "repeats": 1}]


def entry_ratios(table: pd.DataFrame, others: Mapping[str, pd.DataFrame]) -> list[pd.DataFrame]:
    """How many times longer an entry of the Gram matrix takes than in another artifact's table, where both have it."""
    rows = []
    for name, other in others.items():
        here, there = (_seconds_per_entry(one) for one in (table, other))
        for cell in here.index.intersection(there.index):
            kernel, backend = cell
            ratio = float(here[cell] / there[cell])
            rows.append({"kernel": kernel, "backend": backend, "stage": ENTRY_RATIO, "other": name, "ratio": ratio})
    return [pd.DataFrame(rows).assign(measured=True)] if rows else []


def _seconds_per_entry(table: pd.DataFrame) -> pd.Series:
    """Processor time of one entry at the largest training set, by kernel and backend."""
    gram = table[table["measured"].astype(bool) & (table["stage"] == GRAM)].sort_values("images")
    last = gram.groupby(["kernel", "backend"]).last()
    return last["core_seconds"] / last["images"] ** 2


def collected(
    work: WorkFolder | None,
    cells: Sequence[tuple[K, W]],
    rows: Callable[[K, W], Iterable[dict[str, Any]]],
) -> pd.DataFrame:
    """The rows of every kernel and way to compute it; finished ones are kept in `work` and not measured again."""
    parts = []
    for kernel, backend in tqdm(cells, desc="kernels", disable=None):
        logging.getLogger(__name__).info("%s by %s", kernel, backend)
        file = None if work is None else work.file(work.piece(f"{kernel}-{backend}"), ".parquet")
        part = None if file is None else unfinished_table(file)
        if part is None:
            part = pd.DataFrame([{"kernel": kernel, "backend": backend, **row} for row in rows(kernel, backend)])
            if file is not None:
                write_table(part, file)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def with_laws(table: pd.DataFrame, over: str, target: float) -> pd.DataFrame:
    """The measured rows with the time per entry, and for each series one with the power law's value at `target`.

    The law is that of processor time, which other jobs disturb less; its `seconds` have the smallest ratio to
    processor time among the measured points. low, high: the interval of a measurement there with 95 % confidence.
    exponent, exponent_error: the law's, with half the width of its 95 % interval.
    """
    laws = []
    table["entry_core_seconds"] = table["core_seconds"] / table["images"] ** 2
    measured = table[table["stage"].isin(MEASURED_STAGES)]
    for (kernel, backend, stage), rows in measured.groupby(["kernel", "backend", "stage"], sort=False):
        if rows[over].nunique() < 2:
            continue
        law = fit_power_law(rows[over], rows["core_seconds"])
        wall = float((rows["seconds"] / rows["core_seconds"]).min())
        operations = fit_power_law(rows[over], rows["operations"].clip(lower=1.0))
        low, high = law.interval(target)
        laws.append(
            {
                "kernel": kernel,
                "backend": backend,
                "stage": stage,
                over: target,
                "seconds": wall * law.at(target),
                "core_seconds": law.at(target),
                "operations": operations.at(target),
                "low": wall * low,
                "high": wall * high,
                "exponent": law.exponent,
                "exponent_error": law.exponent_error,
                "operations_exponent": operations.exponent,
            }
        )
    return pd.concat([table.assign(measured=True), pd.DataFrame(laws).assign(measured=False)], ignore_index=True)
