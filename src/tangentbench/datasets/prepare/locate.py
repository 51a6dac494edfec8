"""Where on this machine the bytes of a source are, and which archives would have to be fetched."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tangentbench.datasets.prepare.sources import Content, Source
from tangentbench.errors import DataMissing
from tangentbench.paths import Paths

MIRROR_VARIABLE = "TANGENTBENCH_DATA"


@dataclass(frozen=True)
class Found:
    """A file that should hold a content: `form` is plain, xz, gz or archive."""

    content: Content
    path: Path
    form: str
    origin: str
    """Where it was found, for the provenance: `mirror` or `downloads`, and the path below it."""
    in_mirror: bool


def mirrors(mirror: Path | None) -> list[Path]:
    """The folders to look into, the environment's first. One that does not exist is an error, not a silence."""
    named = [(MIRROR_VARIABLE, os.environ.get(MIRROR_VARIABLE)), ("data_mirror", str(mirror) if mirror else None)]
    folders = []
    for origin, folder in named:
        if not folder:
            continue
        if not Path(folder).is_dir():
            raise DataMissing(f"{origin} names {folder}, which is no folder here: correct it, or unset it to download")
        folders.append(Path(folder))
    return list(dict.fromkeys(folders))


def download_folder(source: Source, paths: Paths) -> Path:
    return paths.downloads / source.name


def locate(source: Source, paths: Paths, mirror_folders: Sequence[Path]) -> dict[str, Found | None]:
    """For every content of `source` the first file that should hold it, or None."""
    return {
        content.name: next(candidates(source, content, paths, mirror_folders), None)
        for content in source.contents.values()
    }


def candidates(source: Source, content: Content, paths: Paths, mirror_folders: Sequence[Path]) -> Iterator[Found]:
    for root in mirror_folders:
        for folder in source.folders:
            for name, form in forms(content):
                path = root / folder / name
                if path.is_file():
                    yield Found(content, path, form, f"mirror: {(Path(folder) / name).as_posix()}", True)
    path = download_folder(source, paths) / content.archive
    if path.is_file():
        yield Found(content, path, "archive", f"downloads: {source.name}/{content.archive}", False)


def forms(content: Content) -> list[tuple[str, str]]:
    """File names that may hold `content` in a mirror. The published archive goes before our own compressions."""
    single = [(content.archive, "archive")] if content.member is None else []
    tar = [(content.archive, "archive")] if content.member is not None else []
    compressed = [(f"{content.name}.{kind}", kind) for kind in ("xz", "gz")]
    return [(content.name, "plain"), *single, *compressed, *tar]
