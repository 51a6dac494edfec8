"""The jobs behind Snakemake's rules: `python -m tangentbench.suite.steps measure npk_fig6 all --scale quick`.

A job reads files of the stage before it and writes its own, whole or not at all.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tangentbench.atomic import cannot_write, locked, read_json, write_json
from tangentbench.device import DEVICE_VARIABLE, choose
from tangentbench.errors import TangentbenchError
from tangentbench.gram.plans import TEST, TRAIN, GramPlan
from tangentbench.paths import Paths
from tangentbench.studies.registry import GramStore
from tangentbench.suite.catalogue import Catalogue, load_catalogue, require_scale
from tangentbench.suite.gram_plans import Grams, part_plans
from tangentbench.suite.part_datasets import part_datasets

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
FIGURE_METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "pdf": {"CreationDate": None}}
FIGURE_DPI = 160

log = logging.getLogger("tangentbench")

scale_option = click.option("--scale", required=True)
seed_option = click.option("--seed", type=int, default=0, show_default=True)
code_option = click.option("--code", help="Fingerprint of the code that computes; found out where it is not given.")
threads_option = click.option("--threads", type=int, default=1, show_default=True)


def gram_arguments(function: Callable[..., None]) -> Callable[..., None]:
    """INPUTS KERNEL MATRIX --scale: which matrix of which plan."""
    for decorate in (scale_option, *(click.argument(name) for name in ("matrix", "kernel", "inputs"))):
        function = decorate(function)
    return function


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


class LogFile(logging.FileHandler):
    """A log on a full disk must not bury what the terminal says."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, mode="w", encoding="utf-8")

    def handleError(self, record: logging.LogRecord) -> None:
        pass


def start_log(file: Path | None) -> None:
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if file is not None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handlers.append(LogFile(file))
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
    from tangentbench.datasets import save_dataset
    from tangentbench.datasets.prepare.pipeline import prepare

    prepared = prepare(name, paths, mirror=mirror, seed=seed, progress=True)
    save_dataset(prepared, paths.dataset(name), paths.dataset_provenance(name))


def limit_threads(threads: int) -> None:
    """Before numpy and torch are imported, which read these."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)


@job
@click.argument("inputs")
@scale_option
@seed_option
def gram_inputs(paths: Paths, inputs: str, scale: str, seed: int) -> None:
    """Prepare the images of planned Gram matrices as plain arrays."""
    from tangentbench.gram import steps as gram_jobs

    gram_jobs.prepare_inputs(paths, planned_grams(paths, scale).with_inputs(inputs), scale, seed)


@job
@gram_arguments
@code_option
def gram_store(paths: Paths, inputs: str, kernel: str, matrix: str, scale: str, code: str | None) -> None:
    """Make the empty store of a planned Gram matrix."""
    from tangentbench.gram import steps as gram_jobs
    from tangentbench.suite.job_identity import tile_code

    plan = planned_grams(paths, scale).stored(inputs, kernel)
    gram_jobs.create_store(paths, plan, matrix, scale, code or tile_code(plan))


@job
@gram_arguments
@click.argument("tile")
@threads_option
def gram_tile(paths: Paths, inputs: str, kernel: str, matrix: str, tile: str, scale: str, threads: int) -> None:
    """Compute one tile of a planned Gram matrix."""
    limit_threads(threads)
    from tangentbench.gram import steps as gram_jobs

    gram_jobs.compute_tile(paths, planned_grams(paths, scale).stored(inputs, kernel), matrix, tile, scale, threads)


@job
@gram_arguments
@threads_option
def gram_certificate(paths: Paths, inputs: str, kernel: str, matrix: str, scale: str, threads: int) -> None:
    """Check every tile of a planned Gram matrix, recompute damaged ones, and write its certificate."""
    limit_threads(threads)
    from tangentbench.gram import steps as gram_jobs

    gram_jobs.seal(paths, planned_grams(paths, scale).stored(inputs, kernel), matrix, scale, threads)


def planned_grams(paths: Paths, scale: str) -> Grams:
    return Grams.at(paths, load_catalogue(paths), require_scale(scale))


@job
@click.argument("name")
@click.argument("part")
@scale_option
@seed_option
@threads_option
@code_option
@click.option("--device", envvar=DEVICE_VARIABLE, default="auto", help="auto, cpu, cuda or cuda:N, for torch.")
def measure(
    paths: Paths, name: str, part: str, scale: str, seed: int, threads: int, code: str | None, device: str
) -> None:
    """Run the study function of one artifact on one part of its settings."""
    choose(device)
    limit_threads(threads)
    from tangentbench.datasets import load_dataset
    from tangentbench.identity import open_work
    from tangentbench.studies.registry import Context, settings_for, study_function
    from tangentbench.suite.job_identity import part_identity, study_code
    from tangentbench.suite.provenance import Recorder
    from tangentbench.suite.table_io import read_table, write_table

    catalogue = load_catalogue(paths)
    artifact = catalogue.artifact(name)
    settings = artifact.part_settings(scale, part)
    function = study_function(artifact)
    record = settings_for(artifact, settings)
    limit_torch_threads(threads)
    used = {one: catalogue.artifact(one) for one in artifact.uses_at(scale)}
    table_files = {one: paths.table(scale, used[one].study, one) for one in used}
    dataset_files = {one: paths.dataset(one) for one in part_datasets(artifact, scale, part)}
    plans = part_plans(artifact, scale, part)
    certificates = [
        paths.gram_certificate(scale, plan.inputs, plan.key, one) for plan in plans for one in plan.plan.matrices
    ]
    work = paths.work(scale, artifact.study, name, part)
    context = Context(
        seed=seed,
        datasets={one: load_dataset(file) for one, file in dataset_files.items()},
        tables={one: read_table(file) for one, file in table_files.items()},
        grams={plan.name: gram_store_of(paths, plan, scale) for plan in plans},
        threads=threads,
    )
    recorder = Recorder(
        paths.root,
        artifact=name,
        part=part,
        scale=scale,
        seed=seed,
        settings=settings,
        threads=threads,
        inputs=[*dataset_files.values(), *table_files.values(), *certificates],
        code=code or study_code(scale, name),
    )
    result = paths.part(scale, artifact.study, name, part)
    provenance = paths.part_provenance(scale, artifact.study, name, part)
    with only_process(paths.part_lock(scale, artifact.study, name, part)) as waited:
        if waited and provenance.is_file() and recorder.made(read_json(provenance)):
            read_table(result)
            log.info("it has just finished this part")
            return
        with recorder:
            table = function(replace(context, work=open_work(work, part_identity(recorder))), record)
        write_table(table, result)
        write_json(provenance, recorder.record(outputs=[result]))
        remove_work(work)
    remove_empty(work.parent, work.parent.parent)


def gram_store_of(paths: Paths, plan: GramPlan, scale: str) -> GramStore:
    train, test = (paths.gram_inputs(scale, plan.inputs, matrix) for matrix in (TRAIN, TEST))
    return GramStore(paths.gram(scale, plan.inputs, plan.key), train, test)


@contextmanager
def only_process(lock_file: Path) -> Iterator[bool]:
    """Hold a part's lock; yields whether another process had it first.

    That other one may be a job whose Snakemake was killed: it goes on, and a new Snakemake starts the same part.
    """
    with locked(lock_file, wait=False) as mine:
        if mine:
            yield False
            return
    log.warning("another process is at this part (a job whose Snakemake was killed?): waiting for it to end")
    with locked(lock_file, wait=True):
        yield True


def remove_work(folder: Path) -> None:
    """Remove a finished part's checkpoints."""
    shutil.rmtree(folder, ignore_errors=True)


def remove_empty(*folders: Path) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


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

    from tangentbench.suite.provenance import describe_files, merge
    from tangentbench.suite.table_io import read_table, write_csv, write_table

    artifact = load_catalogue(paths).artifact(name)
    parts = list(artifact.parts_at(scale))
    frames = [read_table(paths.part(scale, artifact.study, name, part)) for part in parts]
    whole = pd.concat(frames, ignore_index=True)
    records = [read_json(paths.part_provenance(scale, artifact.study, name, part)) for part in parts]
    write_table(whole, paths.table(scale, artifact.study, name))
    write_csv(whole, paths.csv(scale, artifact.study, name))
    outputs = describe_files(paths.root, [paths.table(scale, artifact.study, name)])
    provenance = {**merge(records, outputs), "settings": artifact.settings_at(scale)}
    write_json(paths.provenance(scale, artifact.study, name), provenance)


@job
@click.argument("name")
@scale_option
def figure(paths: Paths, name: str, scale: str) -> None:
    """Draw an artifact from its table."""
    import matplotlib

    matplotlib.use("Agg")
    from tangentbench.atomic import written_whole
    from tangentbench.studies.registry import figure_function
    from tangentbench.suite.table_io import read_table

    artifact = load_catalogue(paths).artifact(name)
    drawn = figure_function(artifact)(read_table(paths.table(scale, artifact.study, name)), artifact)
    for kind, metadata in FIGURE_METADATA.items():
        with written_whole(paths.figure(scale, artifact.study, name, kind)) as temporary:
            drawn.savefig(temporary, dpi=FIGURE_DPI, metadata=metadata)


@job
@click.argument("study")
@scale_option
def claims(paths: Paths, study: str, scale: str) -> None:
    """Decide the claims of a study."""
    from tangentbench.claims.verdicts import verdicts, write_claims

    catalogue = load_catalogue(paths)
    only_study = Catalogue({study: catalogue.studies[study]})
    write_claims(paths.claims(scale, study), verdicts(only_study, paths, scale))


@job
@scale_option
def gallery(paths: Paths, scale: str) -> None:
    """Write the gallery page, and join the claims of all studies."""
    from tangentbench.report.gallery import write_gallery

    catalogue = load_catalogue(paths)
    joined: dict[str, Any] = {}
    for study in catalogue.studies:
        joined |= read_json(paths.claims(scale, study))
    write_json(paths.all_claims(scale), joined)
    write_gallery(catalogue, paths, scale)


if __name__ == "__main__":
    jobs()
