"""Sources: what a publisher offers, read from config/datasets.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tangentbench.config import load_checked
from tangentbench.datasets.prepare.checksums import Published
from tangentbench.errors import InvalidConfig
from tangentbench.paths import Paths


@dataclass(frozen=True)
class Content:
    """Uncompressed bytes we read, and the published archive they come in."""

    name: str
    role: str
    archive: str
    published: Published
    member: str | None = None
    """The name inside a tar; None where the archive is this content alone, compressed."""


@dataclass(frozen=True)
class EmbeddedFile:
    """A file inside an installed package."""

    module: str
    distribution: str
    file: str
    published: Published
    unpacked_bytes: int | None = None
    class_name: str | None = None


@dataclass(frozen=True)
class Source:
    name: str
    title: str
    format: str
    homepage: str = ""
    licence: str = ""
    citation: str = ""
    classes: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    archives: Mapping[str, Published] = field(default_factory=dict)
    contents: Mapping[str, Content] = field(default_factory=dict)
    embedded: tuple[EmbeddedFile, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)


def read_configuration(paths: Paths) -> dict[str, Any]:
    """config/datasets.yaml, checked against its schema."""
    return dict(load_checked(paths.datasets, paths.schemas / "datasets.schema.json"))


def load_sources(paths: Paths) -> dict[str, Source]:
    entries = read_configuration(paths)["sources"]
    return {name: make_source(paths.datasets, name, entry) for name, entry in entries.items()}


def make_source(file: Path, name: str, entry: Mapping[str, Any]) -> Source:
    source = Source(
        name=name,
        title=entry["title"],
        format=entry["format"],
        homepage=entry.get("homepage", ""),
        licence=entry.get("licence", ""),
        citation=entry.get("citation", ""),
        classes=tuple(entry.get("classes", ())),
        folders=tuple(entry.get("folders", ())),
        addresses=tuple(entry.get("addresses", ())),
        archives={key: published(archive) for key, archive in entry.get("archives", {}).items()},
        contents={
            key: Content(key, value["role"], value["archive"], published(value), value.get("member"))
            for key, value in entry.get("contents", {}).items()
        },
        embedded=tuple(
            EmbeddedFile(
                module=value["module"],
                distribution=value["distribution"],
                file=value["file"],
                published=published(value),
                unpacked_bytes=value.get("unpacked_bytes"),
                class_name=value.get("class"),
            )
            for value in entry.get("embedded", ())
        ),
        parameters=dict(entry.get("parameters", {})),
    )
    for content in source.contents.values():
        if content.archive not in source.archives:
            key = f"sources.{name}.contents.{content.name}.archive"
            raise InvalidConfig(file, key, f"there is no archive '{content.archive}' in this source")
    return source


def published(entry: Mapping[str, Any]) -> Published:
    algorithm = "sha256" if "sha256" in entry else "md5"
    return Published(entry["bytes"], entry[algorithm], algorithm)
