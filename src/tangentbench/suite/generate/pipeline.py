"""dvc.yaml from the catalogue: a stage per study, and one for the gallery over all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tangentbench.config import SCALES
from tangentbench.paths import Paths
from tangentbench.suite.catalogue import Catalogue, Study

HEAD = """\
# Written by `make generate` from the catalogue.
# Snakemake owns the graph, DVC the versions: a stage is one study, its command Snakemake, its out the study's results.
# `persist` keeps DVC from deleting the results first, so that Snakemake rebuilds only what changed.

"""
NOT_BEHIND_RESULTS = ("cli", "report", "studies")
"""What of the package no study's results depend on; of studies/ a stage names its own folder and the shared modules."""
SCALE = "${scale}"


def dvc_pipeline(catalogue: Catalogue, paths: Paths) -> str:
    at_scale = Paths(Path())
    studies = sorted(catalogue.studies.values(), key=lambda study: study.name)
    folders = [str(at_scale.study(SCALE, study.name)) for study in studies]
    pages = [str(at_scale.gallery(SCALE)), str(at_scale.all_claims(SCALE))]
    stages = {study.name: _study_stage(catalogue, study, paths, at_scale) for study in studies}
    stages["gallery"] = {
        "cmd": _command("all"),
        "deps": [*folders, "src/tangentbench/report"],
        "outs": [{page: {"persist": True}} for page in pages],
    }
    pipeline = {
        "vars": ["config/config.yaml:scale"],
        "stages": stages,
        "metrics": [str(at_scale.claims(SCALE, study.name)) for study in studies],
        "plots": [
            str(at_scale.figure(SCALE, study.name, artifact, "png"))
            for study in studies
            for artifact in sorted(study.artifacts)
        ],
    }
    return HEAD + yaml.safe_dump(pipeline, sort_keys=False, width=120)


def _study_stage(catalogue: Catalogue, study: Study, paths: Paths, at_scale: Paths) -> dict[str, Any]:
    used = sorted(_studies_used(catalogue, study) - {study.name})
    return {
        "cmd": _command(study.name),
        "deps": [
            "Snakefile",
            "workflow/rules",
            *_code(paths),
            f"src/tangentbench/studies/{study.name}",
            *(str(at_scale.study(SCALE, name)) for name in used),
        ],
        "params": [{"config/config.yaml": ["scale", "seed"]}, {"config/datasets.yaml": None}],
        "outs": [{str(at_scale.study(SCALE, study.name)): {"persist": True}}],
    }


def _command(target: str) -> str:
    return f"snakemake --cores all --config scale={SCALE} -- {target}"


def _studies_used(catalogue: Catalogue, study: Study) -> set[str]:
    """The studies whose tables this one takes at any scale."""
    return {
        used.study
        for artifact in study.artifacts.values()
        for scale in SCALES
        for used in catalogue.used_by(artifact, scale)
    }


def _code(paths: Paths) -> list[str]:
    """The rooms and modules that all studies share, as a checkout names them."""
    package = paths.studies.parent
    rooms = [one for one in package.iterdir() if (one / "__init__.py").is_file() and one.name not in NOT_BEHIND_RESULTS]
    modules = [*package.glob("*.py"), *paths.studies.glob("*.py")]
    return sorted(one.relative_to(paths.root).as_posix() for one in [*rooms, *modules])
