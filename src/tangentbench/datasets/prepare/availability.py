"""What is here, what is missing, and from where it would come. Looks at names and sizes only; nothing is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tangentbench.datasets.prepare.embedded import embedded_path
from tangentbench.datasets.prepare.locate import Found, download_folder, locate, mirrors
from tangentbench.datasets.prepare.recipes import load_recipes
from tangentbench.datasets.prepare.sources import Source, load_sources
from tangentbench.paths import Paths

EMBEDDED, IN_MIRROR, DOWNLOADED, MISSING = "embedded", "in mirror", "downloaded", "missing"


@dataclass(frozen=True)
class Availability:
    """One source: its state, where it is or would come from, the files missing, the bytes there or to fetch."""

    name: str
    title: str
    state: str
    where: str
    missing: tuple[str, ...]
    bytes: int
    datasets: tuple[str, ...]
    """The data sets that are made of it."""

    def as_record(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return {**asdict(self), "missing": list(self.missing), "datasets": list(self.datasets)}


def availability(paths: Paths, mirror: Path | None) -> list[Availability]:
    """The state of every source of config/datasets.yaml, in its order."""
    sources = load_sources(paths)
    folders = mirrors(mirror)
    users: dict[str, list[str]] = {name: [] for name in sources}
    for recipe in load_recipes(paths).values():
        users[recipe.source].append(recipe.name)
    records = []
    for source in sources.values():
        if source.contents:
            state, where, missing, size = of_files(source, paths, locate(source, paths, folders))
        elif source.embedded:
            state, where, missing, size = of_packages(source)
        else:
            state, where, missing, size = EMBEDDED, "computed", [], 0
        records.append(
            Availability(source.name, source.title, state, where, tuple(missing), size, tuple(users[source.name]))
        )
    return records


def of_packages(source: Source) -> tuple[str, str, list[str], int]:
    distributions = " and ".join(dict.fromkeys(file.distribution for file in source.embedded))
    missing = [file.file for file in source.embedded if embedded_path(file) is None]
    size = sum(file.published.bytes for file in source.embedded)
    if missing:
        return MISSING, f"pip install {distributions.replace(' and', '')}", missing, size
    return EMBEDDED, f"inside {distributions}", [], size


def of_files(source: Source, paths: Paths, found: Mapping[str, Found | None]) -> tuple[str, str, list[str], int]:
    good = {name: place for name, place in found.items() if place is not None and has_right_size(source, place)}
    bad = {name: place for name, place in found.items() if place is not None and name not in good}
    lacking = dict.fromkeys(source.contents[name].archive for name, place in found.items() if place is None)
    if bad or lacking:
        wrong = [f"{place.path} (wrong size)" for place in bad.values()]
        size = sum(source.archives[archive].bytes for archive in lacking)
        return MISSING, source.addresses[0], [*dict.fromkeys(wrong), *lacking], size
    files = {place.path for place in good.values()}
    size = sum(path.stat().st_size for path in files)
    if any(place.in_mirror for place in good.values()):
        place = next(place.path.parent for place in good.values() if place.in_mirror)
        return IN_MIRROR, str(place), [], size
    return DOWNLOADED, str(download_folder(source, paths)), [], size


def has_right_size(source: Source, found: Found) -> bool:
    """Compare with the published size; our own compressions have none, so any bytes will do."""
    size = found.path.stat().st_size
    if found.form == "plain":
        return size == found.content.published.bytes
    if found.form == "archive":
        return size == source.archives[found.content.archive].bytes
    return size > 0
