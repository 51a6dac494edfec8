"""The figures of section 2.9: stages timed over a list of sizes, and the power law carried on."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from tangentbench.studies.registry import Context, study
from tangentbench.studies.survey.measure.images import Images, prepared
from tangentbench.studies.survey.measure.regimes import Regime, regime
from tangentbench.studies.survey.measure.stages import (
    COMPILATION,
    GRAM,
    INFERENCE,
    INTEGRATION,
    Integration,
    Timing,
    regression_rows,
)
from tangentbench.studies.survey.settings import network_named, ways
from tangentbench.suite.table_io import read_if_there, write_table
from tangentbench.theory.power_law import fit_power_law

SECONDS_A_DAY = 86400.0
MEASURED_STAGES = (GRAM, INTEGRATION, INFERENCE)
ENTRY_RATIO = "entry ratio"
GIB = 2**30


def outputs_of(loss: str, images: Images) -> int:
    return 1 if loss == "binary_cross_entropy" else images.classes


@study("survey_fig2_5")
@study("survey_fig2_6")
@study("survey_fig2_7")
def cost_against_images(
    context: Context,
    *,
    architecture: str,
    architecture_settings: dict[str, Any],
    kernels: list[str],
    backends: list[str],
    loss: str,
    integration_steps: int,
    integration_step_share: float,
    batch_size: int,
    train_sizes: dict[str, list[int]],
    test_images: dict[str, int],
    image_side: int,
    finite_gib: float,
    repeats: int,
    repeat_seconds: float,
    extrapolate_to: int,
) -> pd.DataFrame:
    """One row a kernel, way to compute it, training set size and stage; and one a law carried on to extrapolate_to."""
    largest = max(max(sizes) for sizes in train_sizes.values())
    most = max(test_images.values())
    images = prepared(context.dataset, train=largest, test=most, side=image_side, seed=context.seed)
    network = network_named(architecture, architecture_settings, outputs_of(loss, images))
    integration = Integration(loss, integration_steps, integration_step_share)
    timing = Timing(repeats, repeat_seconds)

    def rows(kernel: str, backend: str) -> Iterable[dict[str, Any]]:
        chosen = regime(
            network,
            kernel,
            backend,
            images.x_train.shape[1:],
            batch=batch_size,
            threads=context.threads,
            seed=context.seed,
            memory=int(finite_gib * GIB),
        )
        yield from compilation_rows(chosen, images=0, side=image_side)
        for size in train_sizes[backend]:
            for row in regression_rows(chosen, images.first(size, test_images[backend]), integration, timing):
                yield {"images": size, "side": image_side, **row}

    settings = (architecture_settings, image_side, train_sizes, test_images, integration, timing, batch_size)
    table = collected(context.work, repr(settings), ways(kernels, backends), rows)
    table = with_laws(table, "images", float(extrapolate_to))
    return pd.concat([table, *entry_ratios(table, context.tables)], ignore_index=True)


@study("survey_fig2_8")
def cost_against_side(
    context: Context,
    *,
    architecture: str,
    architecture_settings: dict[str, Any],
    kernels: list[str],
    backends: list[str],
    loss: str,
    integration_steps: int,
    integration_step_share: float,
    batch_size: int,
    sides: dict[str, list[int]],
    train_images: int,
    test_images: dict[str, int],
    finite_gib: float,
    repeats: int,
    repeat_seconds: float,
    extrapolate_to_side: int,
    extrapolate_to_images: int,
) -> pd.DataFrame:
    """One row a kernel, way to compute it, side and stage; and one a law carried on to extrapolate_to_side."""
    integration = Integration(loss, integration_steps, integration_step_share)
    timing = Timing(repeats, repeat_seconds)

    def rows(kernel: str, backend: str) -> Iterable[dict[str, Any]]:
        for side in sides[backend]:
            tests = test_images[backend]
            images = prepared(context.dataset, train=train_images, test=tests, side=side, seed=context.seed)
            chosen = regime(
                network_named(architecture, architecture_settings, outputs_of(loss, images)),
                kernel,
                backend,
                images.x_train.shape[1:],
                batch=batch_size,
                threads=context.threads,
                seed=context.seed,
                memory=int(finite_gib * GIB),
            )
            yield from compilation_rows(chosen, images=0, side=side)
            for row in regression_rows(chosen, images, integration, timing):
                yield {"images": train_images, "side": side, **row}

    settings = (architecture_settings, train_images, sides, test_images, integration, timing, batch_size)
    table = collected(context.work, repr(settings), ways(kernels, backends), rows)
    table = with_laws(table, "side", float(extrapolate_to_side))
    # the Gram matrix of more images takes longer by the square of their number
    more = (extrapolate_to_images / train_images) ** 2
    carried = ~table["measured"] & (table["stage"] == GRAM)
    table.loc[carried, "days"] = table.loc[carried, "seconds"] * more / SECONDS_A_DAY
    return table


def compilation_rows(chosen: Regime, **place: int) -> list[dict[str, Any]]:
    if not chosen.preparation:
        return []
    return [{**place, "stage": COMPILATION, "seconds": chosen.preparation, "repeats": 1}]


def entry_ratios(table: pd.DataFrame, others: Mapping[str, pd.DataFrame]) -> list[pd.DataFrame]:
    """How many times longer an entry of the Gram matrix takes than in another artifact's table, where both stand."""
    rows = []
    for name, other in others.items():
        here, there = (seconds_an_entry(one) for one in (table, other))
        for cell in here.index.intersection(there.index):
            kernel, backend = cell
            ratio = float(here[cell] / there[cell])
            rows.append({"kernel": kernel, "backend": backend, "stage": ENTRY_RATIO, "other": name, "ratio": ratio})
    return [pd.DataFrame(rows).assign(measured=True)] if rows else []


def seconds_an_entry(table: pd.DataFrame) -> pd.Series:
    """Processor time of one entry at the largest training set, by kernel and backend."""
    gram = table[table["measured"].astype(bool) & (table["stage"] == GRAM)].sort_values("images")
    last = gram.groupby(["kernel", "backend"]).last()
    return last["core_seconds"] / last["images"] ** 2


def collected(
    work: Path | None,
    settings: str,
    cells: Sequence[tuple[str, str]],
    rows: Callable[[str, str], Iterable[dict[str, Any]]],
) -> pd.DataFrame:
    """The rows of every kernel and way to compute it; finished ones are kept in `work` for a run after a kill."""
    parts = []
    mark = hashlib.sha256(settings.encode()).hexdigest()[:12]
    for kernel, backend in tqdm(cells, desc="kernels", disable=None):
        logging.getLogger(__name__).info("%s by %s", kernel, backend)
        file = None if work is None else work / f"{kernel}-{backend}-{mark}.parquet"
        part = None if file is None else read_if_there(file)
        if part is None:
            part = pd.DataFrame([{"kernel": kernel, "backend": backend, **row} for row in rows(kernel, backend)])
            if file is not None:
                write_table(part, file)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def with_laws(table: pd.DataFrame, over: str, target: float) -> pd.DataFrame:
    """The measured rows with the time of an entry, and for each series one with the power law's value at `target`.

    The law is that of processor time, which other jobs disturb less. Its `seconds` are as many for each second of
    processor time as at the measured point where they are fewest. low, high: where a measurement there would lie with
    95 % confidence. exponent, exponent_error: the law's, with half the width of its 95 % interval.
    """
    carried = []
    table["entry_core_seconds"] = table["core_seconds"] / table["images"] ** 2
    measured = table[table["stage"].isin(MEASURED_STAGES)]
    for (kernel, backend, stage), rows in measured.groupby(["kernel", "backend", "stage"], sort=False):
        if rows[over].nunique() < 2:
            continue
        law = fit_power_law(rows[over], rows["core_seconds"])
        wall = float((rows["seconds"] / rows["core_seconds"]).min())
        operations = fit_power_law(rows[over], rows["operations"].clip(lower=1.0))
        low, high = law.interval(target)
        carried.append(
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
    return pd.concat([table.assign(measured=True), pd.DataFrame(carried).assign(measured=False)], ignore_index=True)
