"""`tangentbench pull`: results from a DVC remote, in a state where there is nothing left to build."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

import click

from tangentbench.cli.examples import examples
from tangentbench.cli.output import chosen_scale, open_project, scale_option
from tangentbench.cli.run import clear_stale_lock, only_run
from tangentbench.errors import CannotPull
from tangentbench.paths import Paths


@click.command(epilog=examples("tangentbench pull", "tangentbench pull --remote lab", "tangentbench run all -n"))
@scale_option
@click.option("--remote", metavar="NAME", help="The DVC remote; the default one if not given.")
@click.option("--jobs", type=click.IntRange(min=1), help="How many files at a time.")
def command(scale: str | None, remote: str | None, jobs: int | None) -> None:
    """Fetch shared results with DVC, check them, and tell Snakemake that they are up to date.

    A pulled file has no history here, so Snakemake would build it again. It is only told otherwise where DVC finds
    every result to be the one that this code and these settings gave.
    """
    paths, _ = open_project()
    scale = chosen_scale(paths, scale)
    options = [*(["--remote", remote] if remote else []), *(["--jobs", str(jobs)] if jobs else [])]
    with only_run(paths):
        clear_stale_lock(paths)
        if dvc(paths, "pull", *options).returncode:
            raise CannotPull("dvc pull failed", "see above; `dvc remote list` shows where results are looked for")
        require_clean(paths)
        accept(paths, scale)
    click.echo("pulled and checked: `tangentbench run` has nothing to do for these results")


def dvc(paths: Paths, *arguments: str, quiet: bool = False) -> subprocess.CompletedProcess[str]:
    kept = subprocess.PIPE if quiet else None
    return subprocess.run(
        [sys.executable, "-m", "dvc", *arguments], cwd=paths.root, stdout=kept, stderr=kept, text=True, check=False
    )


def require_clean(paths: Paths) -> None:
    """Raise where a result does not belong to the code, the settings or the data of this checkout."""
    answer = dvc(paths, "status", "--json", quiet=True)
    if answer.returncode:
        raise CannotPull(f"dvc status failed ({last_line(answer.stderr)})", "run it to see why")
    if changed := json.loads(answer.stdout):
        stages = ", ".join(sorted(changed))
        raise CannotPull(
            f"the results do not belong to this checkout (`dvc status` names {stages})",
            "check out the commit they were pushed from, or build them with `tangentbench run`",
        )


def accept(paths: Paths, scale: str) -> None:
    """Let Snakemake take the files that are there as made by what is there."""
    call = [sys.executable, "-m", "snakemake", "--touch", "--cores", "1", "--quiet", "all"]
    done = subprocess.run(
        [*call, "--config", f"scale={scale}", "--", *touched_targets(paths, scale)],
        cwd=paths.root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CannotPull(f"snakemake --touch failed ({last_line(done.stderr)})", "run it by hand to see why")


def touched_targets(paths: Paths, scale: str) -> Sequence[str]:
    """Everything if the gallery came with the results, else the studies that did."""
    if paths.gallery(scale).is_file():
        return ["all"]
    found = sorted(file.parent.name for file in paths.scale(scale).glob("*/claims.json"))
    if not found:
        raise CannotPull(f"no results of scale {scale} came", "ask for another with --scale, or `dvc push` them first")
    return found


def last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
