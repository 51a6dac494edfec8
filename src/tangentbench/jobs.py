"""The jobs behind Snakemake's rules: `python -m tangentbench.jobs measure npk_fig6 all --scale quick`.

A job reads files of the stage before it and writes its own, whole or not at all.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from tangentbench.catalogue import Catalogue, load_catalogue
from tangentbench.errors import TangentbenchError
from tangentbench.files import cannot_write, read_json, write_json
from tangentbench.paths import Paths

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
FIGURE_METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "pdf": {"CreationDate": None}}
FIGURE_DPI = 160

log = logging.getLogger("tangentbench")

scale_option = click.option("--scale", required=True)
seed_option = click.option("--seed", type=int, default=0, show_default=True)


@click.group()
def jobs() -> None:
    """Single steps of the workflow, as Snakemake calls them."""


def job(function: Callable[..., None]) -> click.Command:
    """A command with `--log`: what goes wrong is one sentence, on the terminal and in the log."""

    @click.option("--log", "log_file", type=click.Path(path_type=Path))
    def logged(log_file: Path | None, **arguments: Any) -> None:
        start_log(log_file)
        try:
            function(Paths(Path()), **arguments)
        except TangentbenchError as error:
            log.error("error: %s", error)
            raise SystemExit(1) from error

    logged.__name__, logged.__doc__ = function.__name__, function.__doc__
    logged.__dict__.setdefault("__click_params__", []).extend(getattr(function, "__click_params__", []))
    return jobs.command(function.__name__)(logged)


def start_log(file: Path | None) -> None:
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if file is not None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handlers.append(logging.FileHandler(file, mode="w", encoding="utf-8"))
        except OSError as error:
            raise SystemExit(f"tangentbench: error: {cannot_write(file, error)}") from error
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", handlers=handlers, force=True)
    log.setLevel(logging.INFO)


@job
@click.argument("name")
@click.option("--mirror", type=click.Path(path_type=Path))
@seed_option
def dataset(paths: Paths, name: str, mirror: Path | None, seed: int) -> None:
    """Prepare a data set: data/NAME.npz and its provenance."""
    from tangentbench.datasets import prepare, save_dataset

    prepared = prepare(name, paths, mirror=mirror, seed=seed, progress=True)
    save_dataset(prepared, paths.dataset(name), paths.dataset_provenance(name))


@job
@click.argument("name")
@click.argument("part")
@scale_option
@seed_option
@click.option("--threads", type=int, default=1, show_default=True)
def measure(paths: Paths, name: str, part: str, scale: str, seed: int, threads: int) -> None:
    """Run the study function of one artifact on one part of its settings."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)
    from tangentbench.datasets import load_dataset
    from tangentbench.registry import Context, check_settings, study_function
    from tangentbench.report.provenance import Recorder
    from tangentbench.tables import read_table, write_table

    catalogue = load_catalogue(paths)
    artifact = catalogue.working_artifact(name)
    settings = artifact.parts_at(scale)[part]
    function = study_function(artifact)
    check_settings(function, settings, paths.catalogue / f"{artifact.study}.yaml", name)
    limit_torch_threads(threads)
    used = {one: catalogue.artifact(one) for one in artifact.uses}
    table_files = {one: paths.table(scale, used[one].study, one) for one in used}
    dataset_files = {one: paths.dataset(one) for one in artifact.datasets_at(scale)}
    work = paths.work(scale, artifact.study, name, part)
    context = Context(
        seed=seed,
        datasets={one: load_dataset(file) for one, file in dataset_files.items()},
        tables={one: read_table(file) for one, file in table_files.items()},
        work=work,
        threads=threads,
    )
    with Recorder(
        paths.root,
        artifact=name,
        part=part,
        scale=scale,
        seed=seed,
        settings=settings,
        threads=threads,
        inputs=[*dataset_files.values(), *table_files.values()],
    ) as recorder:
        table = function(context, **settings)
    write_table(table, paths.part(scale, artifact.study, name, part))
    write_json(paths.part_provenance(scale, artifact.study, name, part), recorder.record())
    remove_work(work)


def remove_work(folder: Path) -> None:
    """Remove a finished part's checkpoints, and the folders above it that are empty now."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()
        folder.parent.parent.rmdir()


def limit_torch_threads(threads: int) -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)


@job
@click.argument("name")
@scale_option
def table(paths: Paths, name: str, scale: str) -> None:
    """Put the parts of an artifact together: one parquet, one CSV, one provenance."""
    import pandas as pd

    from tangentbench.report.provenance import merge
    from tangentbench.tables import read_table, write_csv, write_table

    artifact = load_catalogue(paths).working_artifact(name)
    parts = list(artifact.parts_at(scale))
    frames = [read_table(paths.part(scale, artifact.study, name, part)) for part in parts]
    whole = pd.concat(frames, ignore_index=True)
    records = [read_json(paths.part_provenance(scale, artifact.study, name, part)) for part in parts]
    write_table(whole, paths.table(scale, artifact.study, name))
    write_csv(whole, paths.csv(scale, artifact.study, name))
    provenance = {**merge(records), "settings": artifact.settings_at(scale)}
    write_json(paths.provenance(scale, artifact.study, name), provenance)


@job
@click.argument("name")
@scale_option
def figure(paths: Paths, name: str, scale: str) -> None:
    """Draw an artifact from its table."""
    import matplotlib

    matplotlib.use("Agg")
    from tangentbench.files import written_whole
    from tangentbench.registry import figure_function
    from tangentbench.tables import read_table

    artifact = load_catalogue(paths).working_artifact(name)
    drawn = figure_function(artifact)(read_table(paths.table(scale, artifact.study, name)), artifact)
    for kind, metadata in FIGURE_METADATA.items():
        with written_whole(paths.figure(scale, artifact.study, name, kind)) as temporary:
            drawn.savefig(temporary, dpi=FIGURE_DPI, metadata=metadata)


@job
@click.argument("study")
@scale_option
def claims(paths: Paths, study: str, scale: str) -> None:
    """Decide the claims of a study."""
    from tangentbench.report.verdicts import verdicts, write_claims

    catalogue = load_catalogue(paths)
    only_study = Catalogue({study: catalogue.studies[study]})
    write_claims(paths.claims(scale, study), verdicts(only_study, paths, scale))


@job
@scale_option
def gallery(paths: Paths, scale: str) -> None:
    """Write the gallery page and the claims of all studies."""
    from itertools import chain

    from tangentbench.report.gallery import write_gallery
    from tangentbench.report.verdicts import by_artifact, write_claims

    catalogue = load_catalogue(paths)
    decided = by_artifact(catalogue, paths, scale)
    write_claims(paths.all_claims(scale), chain.from_iterable(decided.values()))
    write_gallery(catalogue, paths, scale, decided)


@job
@click.argument("name")
def planned(paths: Paths, name: str) -> None:
    """Say that an artifact cannot be built yet."""
    load_catalogue(paths).working_artifact(name)


if __name__ == "__main__":
    jobs()
