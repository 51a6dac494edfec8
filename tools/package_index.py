"""The SHA-256 that a package index publishes for the files of a version (PEP 503: the fragment of each link).

Only files that Python 3.11 on Linux can install are asked for, on both kinds of processors that the suite runs on.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit
from urllib.request import urlopen

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

PUBLIC_INDEX = "https://pypi.org/simple"
PYTHON = (3, 11)
PROCESSORS = ("x86_64", "aarch64")
NEWEST_GLIBC = 39
"""The minor version of glibc 2 in the newest system of the images (Ubuntu 24.04)."""
OLD_NAMES = ("manylinux1", "manylinux2010", "manylinux2014", "linux")
TIMEOUT = 120


class Links(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href") if tag == "a" else None
        if address:
            self.found.append(address)


def index_address() -> str:
    """The index that pip uses here."""
    call = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    configured = subprocess.run(call, capture_output=True, text=True, check=False).stdout.strip()
    return (os.environ.get("PIP_INDEX_URL") or configured or PUBLIC_INDEX).rstrip("/")


def published_page(key: str) -> str:
    certificates = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    with urlopen(f"{index_address()}/{key}/", timeout=TIMEOUT, context=certificates) as answer:
        return str(answer.read().decode("utf-8"))


def sums_on(page: str, version: str) -> tuple[str, ...]:
    """The sums of a version's wheels; its source too, where a processor has no wheel."""
    wheels: dict[str, set[str]] = {processor: set() for processor in PROCESSORS}
    sources: set[str] = set()
    for link in Links(page).found:
        parts = urlsplit(link)
        kind, _, value = parts.fragment.partition("=")
        if kind != "sha256":
            continue
        name = unquote(parts.path.rpartition("/")[2])
        try:
            if name.endswith(".whl"):
                _, found, _, tags = parse_wheel_filename(name)
                fitting = [one for one in PROCESSORS if found == Version(version) and tags & SUPPORTED[one]]
                for processor in fitting:
                    wheels[processor].add(value)
            elif parse_sdist_filename(name)[1] == Version(version):
                sources.add(value)
        except (InvalidWheelFilename, InvalidSdistFilename):
            continue
    everywhere = all(wheels.values())
    return tuple(sorted(set().union(*wheels.values()) | (set() if everywhere else sources)))


def supported_tags(processor: str) -> frozenset[Tag]:
    platforms = [f"manylinux_2_{minor}_{processor}" for minor in range(5, NEWEST_GLIBC + 1)]
    platforms += [f"{name}_{processor}" for name in OLD_NAMES]
    return frozenset(
        [*cpython_tags(PYTHON, platforms=platforms), *compatible_tags(PYTHON, f"cp{PYTHON[0]}{PYTHON[1]}", platforms)]
    )


SUPPORTED = {processor: supported_tags(processor) for processor in PROCESSORS}
