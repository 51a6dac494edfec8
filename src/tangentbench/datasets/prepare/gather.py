"""The bytes of a source: found or fetched, checked, unpacked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tangentbench.datasets.prepare.checksums import Published, check_bytes, check_file
from tangentbench.datasets.prepare.download import fetch
from tangentbench.datasets.prepare.locate import MIRROR_VARIABLE, Found, download_folder, locate, mirrors
from tangentbench.datasets.prepare.sources import Content, Source
from tangentbench.datasets.prepare.unpack import read_gz, read_members, read_plain, read_xz, read_zip_members
from tangentbench.errors import DataMissing
from tangentbench.paths import Paths

READING_AT_ONCE = 2  # hashing and unpacking run outside Python's lock, so a second file costs no time
READERS: Mapping[str, Callable[[Path, int], bytes]] = {"plain": read_plain, "xz": read_xz, "gz": read_gz}


def gather(
    source: Source, paths: Paths, mirror: Path | None, progress: bool
) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """Every content of `source` by name, and a record of each file read for the provenance."""
    from tqdm import tqdm

    groups = by_file(find_or_fetch(source, paths, mirror, progress))
    contents: dict[str, bytes] = {}
    with ThreadPoolExecutor(READING_AT_ONCE) as pool:
        read = pool.map(lambda item: read_file(source, *item), groups.items())
        shown = tqdm(read, total=len(groups), desc=f"reading {source.name}", disable=None if progress else True)
        for part in shown:
            contents.update(part)
    records = [record(source, path, group) for path, group in groups.items()]
    return {name: contents[name] for name in source.contents}, records


def find_or_fetch(source: Source, paths: Paths, mirror: Path | None, progress: bool) -> list[Found]:
    folders = mirrors(mirror)
    found = locate(source, paths, folders)
    absent = {source.contents[name].archive for name, place in found.items() if place is None}
    for archive in sorted(absent):
        advice = f"put it into a folder and set {MIRROR_VARIABLE} to that folder"
        addresses = [address + archive for address in source.addresses]
        fetch(addresses, source.archives[archive], download_folder(source, paths) / archive, advice, progress)
    if absent:
        found = locate(source, paths, folders)
    lost = [name for name, place in found.items() if place is None]
    if lost:
        raise DataMissing(f"{', '.join(lost)} of {source.name} vanished while it was being read: run again")
    return [place for place in found.values() if place is not None]


def by_file(found: list[Found]) -> dict[Path, list[Found]]:
    groups: dict[Path, list[Found]] = {}
    for place in found:
        groups.setdefault(place.path, []).append(place)
    return groups


def read_file(source: Source, path: Path, group: list[Found]) -> dict[str, bytes]:
    """The contents that the file at `path` holds, each checked against its published sum."""
    first = group[0]
    remedy = remedy_for(first)
    if first.form == "archive":
        check_file(path, source.archives[first.content.archive], remedy)
        unpacked = unpack_archive(path, [place.content for place in group])
    else:
        unpacked = {first.content.name: READERS[first.form](path, first.content.published.bytes)}
    for place in group:
        what = str(path) if first.form == "plain" else f"{place.content.name} in {path}"
        check_bytes(what, unpacked[place.content.name], place.content.published, remedy)
    return unpacked


def unpack_archive(path: Path, contents: list[Content]) -> dict[str, bytes]:
    members = {content.member: content for content in contents if content.member is not None}
    if not members:
        (content,) = contents
        return {content.name: read_gz(path, content.published.bytes)}
    read = read_zip_members if path.suffix == ".zip" else read_members
    data = read(path, {member: content.published.bytes for member, content in members.items()})
    return {content.name: data[member] for member, content in members.items()}


def remedy_for(found: Found) -> str:
    if found.in_mirror:
        return "replace it by the published file, or remove it from the mirror to have it fetched"
    return "delete it and run again to have it fetched anew"


def record(source: Source, path: Path, group: list[Found]) -> dict[str, Any]:
    """What was read from one file, by published names and sums only, so that it says the same on every machine."""
    first = group[0]
    archive = {"archive": sums(source.archives[first.content.archive])} if first.form == "archive" else {}
    contents = {place.content.name: sums(place.content.published) for place in group}
    return {"file": path.name, "origin": first.origin, "contents": contents, **archive}


def sums(published: Published) -> dict[str, Any]:
    return {"bytes": published.bytes, published.algorithm: published.sum}
