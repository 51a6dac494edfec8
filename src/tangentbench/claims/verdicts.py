"""The state of every claim at one scale: decided once from the tables that were built, kept in claims.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pandas as pd

from tangentbench.atomic import read_json, write_json
from tangentbench.claims.decision import FAILED, STATES, Verdict, decide
from tangentbench.claims.measures import MeasureError
from tangentbench.errors import ResultUnreadable
from tangentbench.paths import Paths
from tangentbench.suite.catalogue import Artifact, Catalogue, Study
from tangentbench.suite.table_io import read_if_there


def table_of(paths: Paths, scale: str, artifact: Artifact) -> pd.DataFrame | None:
    """The artifact's tidy table, or None where it was not built."""
    return read_if_there(paths.table(scale, artifact.study, artifact.name))


def verdicts(
    catalogue: Catalogue, paths: Paths, scale: str, artifacts: Iterable[Artifact] | None = None
) -> list[Verdict]:
    """Decide the claims of `artifacts` (all of the catalogue, where not given) at `scale`."""
    chosen = catalogue if artifacts is None else artifacts
    return list(chain.from_iterable(decide_all(one, scale, table_of(paths, scale, one)) for one in chosen))


def decide_all(artifact: Artifact, scale: str, table: pd.DataFrame | None) -> list[Verdict]:
    found = []
    for claim in artifact.claims:
        try:
            found.append(decide(claim, artifact, scale, table))
        except MeasureError as error:
            raise MeasureError(
                f"the claim {claim.name} of {artifact.name} cannot be measured: {error}; "
                f"fix its measure in src/tangentbench/studies/{artifact.study}/catalogue.yaml"
            ) from error
    return found


def write_claims(path: Path, found: Iterable[Verdict]) -> None:
    """claims.json: one record per claim, by the claim's name, as DVC's metrics want it."""
    write_json(path, {verdict.claim.name: verdict.as_record() for verdict in found})


def read_claims(study: Study, paths: Paths, scale: str) -> dict[str, list[Verdict]]:
    """The verdicts in a study's claims.json, by artifact; not run where the study was not built at this scale."""
    file = paths.claims(scale, study.name)
    if not file.is_file():
        return {one.name: decide_all(one, scale, None) for one in study.artifacts.values()}
    records = read_json(file)
    try:
        return {
            artifact.name: [Verdict.from_record(claim, records[claim.name]) for claim in artifact.claims]
            for artifact in study.artifacts.values()
        }
    except (KeyError, TypeError) as error:
        raise ResultUnreadable(file, f"it has no verdict, or half a verdict, on a claim: {error}") from error


def count_states(found: Iterable[Verdict]) -> dict[str, int]:
    """How many claims are in each state; every state is there, in the order of STATES."""
    counted = Counter(verdict.state for verdict in found)
    return {state: counted[state] for state in STATES}


def failed(found: Iterable[Verdict]) -> list[Verdict]:
    return [verdict for verdict in found if verdict.state == FAILED]
