"""`tangentbench run`: a thin front to Snakemake."""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click
import psutil

from tangentbench.atomic import cannot_write
from tangentbench.cli.examples import examples
from tangentbench.cli.output import chosen_scale, open_project, scale_option
from tangentbench.errors import TangentbenchError
from tangentbench.paths import Paths
from tangentbench.suite.catalogue import Catalogue


@click.command(
    epilog=examples(
        "tangentbench run",
        "tangentbench run npk_fig6 --scale cpu --cores 8",
        "tangentbench run all -n",
        "tangentbench run npk_fig6 --snakemake '--forceall'",
    )
)
@click.argument("targets", nargs=-1)
@scale_option
@click.option("--cores", type=click.IntRange(min=1), default=None, help="How many cores; all if not given.")
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--snakemake", "extra", default="", metavar="OPTIONS", help="Further options for Snakemake, in quotes.")
@click.pass_context
def command(
    context: click.Context, targets: tuple[str, ...], scale: str | None, cores: int | None, dry_run: bool, extra: str
) -> None:
    """Build artifacts, studies or `all` (the default): what Snakemake would build, with clearer errors."""
    paths, catalogue = open_project()
    scale = chosen_scale(paths, scale)
    names = checked_targets(catalogue, targets)
    call = [sys.executable, "-m", "snakemake", "--cores", str(cores or os.cpu_count() or 1)]
    call += ["--dry-run"] if dry_run else []
    call += [*snakemake_options(extra, scale), "--", *names]
    if dry_run:
        context.exit(subprocess.call(call, cwd=paths.root))
    with only_run(paths):
        clear_stale_lock(paths)
        code = subprocess.call(call, cwd=paths.root)
    if code == 0 and "all" in names:
        click.echo(f"gallery: {paths.gallery(scale)}")
    context.exit(code)


def snakemake_options(extra: str, scale: str) -> list[str]:
    """The user's options and our scale; Snakemake takes the last --config only, so the user's is joined with ours."""
    try:
        words = shlex.split(extra)
    except ValueError as error:
        raise TangentbenchError(f"--snakemake {extra!r} cannot be read ({error}): close every quote") from error
    others: list[str] = []
    configured = [f"scale={scale}"]
    in_config = False
    for word in words:
        if word in ("--config", "-C"):
            in_config = True
        elif word.startswith("--config="):
            configured.append(word.removeprefix("--config="))
        elif in_config and not word.startswith("-"):
            configured.append(word)
        else:
            in_config = False
            others.append(word)
    if any(one.startswith("scale=") for one in configured[1:]):
        raise TangentbenchError("--snakemake's --config names a scale: give it with --scale")
    return [*others, "--config", *configured]


def checked_targets(catalogue: Catalogue, targets: tuple[str, ...]) -> list[str]:
    """The targets as given, after an error for what is unknown."""
    catalogue.select(targets)
    return list(targets) or ["all"]


@contextmanager
def only_run(paths: Paths) -> Iterator[None]:
    """Hold the checkout's lock; the system releases it even if we are killed."""
    file = paths.run_lock
    try:
        file.parent.mkdir(exist_ok=True)
        handle = file.open("w")
    except OSError as error:
        raise cannot_write(file, error) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TangentbenchError("another `tangentbench run` works in this folder: wait for it to end") from error
        yield


def clear_stale_lock(paths: Paths) -> None:
    """Remove the lock a killed Snakemake left behind, if no Snakemake works in this folder any more."""
    locks = paths.snakemake_locks
    if not locks.is_dir() or not any(locks.iterdir()):
        return
    if other := running_snakemake(paths.root):
        raise TangentbenchError(f"a Snakemake (process {other}) works in this folder: wait for it to end")
    for lock in locks.iterdir():
        lock.unlink(missing_ok=True)


def running_snakemake(folder: Path) -> int | None:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            is_snakemake = any("snakemake" in Path(word).name for word in process.cmdline()[:3])
            if is_snakemake and process.pid != os.getpid() and Path(process.cwd()) == folder:
                return int(process.pid)
    return None
