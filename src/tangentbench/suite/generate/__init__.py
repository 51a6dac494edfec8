"""Files of the repository that are written from others: `python -m tangentbench.suite.generate`, or `make generate`.

dvc.yaml and the README's table come from the catalogue, envs/ from requirements.lock. A test says when one is stale.
"""

from __future__ import annotations

from pathlib import Path

from tangentbench.atomic import written_whole
from tangentbench.paths import Paths
from tangentbench.suite.catalogue import load_catalogue
from tangentbench.suite.generate.environments import environments
from tangentbench.suite.generate.pipeline import dvc_pipeline
from tangentbench.suite.generate.readme import with_table

COMMAND = "make generate"


def generated(paths: Paths) -> dict[Path, str]:
    """Every generated file with the text it should have."""
    catalogue = load_catalogue(paths)
    readme = paths.readme.read_text(encoding="utf-8")
    return {
        paths.dvc_pipeline: dvc_pipeline(catalogue, paths),
        paths.readme: with_table(readme, catalogue),
        **environments(paths),
    }


def stale(paths: Paths) -> list[Path]:
    """The files that do not have the text they should have, and files of envs/ that should not be there."""
    wanted = generated(paths)
    differing = [file for file, text in wanted.items() if not file.is_file() or file.read_text("utf-8") != text]
    superfluous = [file for file in sorted(paths.environments.iterdir()) if file not in wanted]
    return [*differing, *superfluous]


def write_all(paths: Paths) -> list[Path]:
    """Bring every generated file up to date; returns those that changed."""
    wanted, changed = generated(paths), stale(paths)
    for file in changed:
        if file not in wanted:
            file.unlink()
            continue
        with written_whole(file) as temporary:
            temporary.write_text(wanted[file], encoding="utf-8")
    return changed
