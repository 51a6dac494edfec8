"""The locks as data: pins with the SHA-256 of every file that may be installed for them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

HASH = "--hash=sha256:"


@dataclass(frozen=True, order=True)
class Pin:
    """One package at one version; `sums` are the SHA-256 of its files, in order."""

    name: str
    version: str
    sums: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name that all spellings of it share."""
        return str(canonicalize_name(self.name))

    def __str__(self) -> str:
        lines = [f"{self.name}=={self.version}", *(f"    {HASH}{one}" for one in self.sums)]
        return " \\\n".join(lines)


def read_lock(lock: Path) -> list[Pin]:
    """The pins of a lock, as written by `write_lock`."""
    text = re.sub(r"^#.*$", "", lock.read_text(encoding="utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    pins = []
    for line in filter(str.strip, text.splitlines()):
        requirement, *options = line.split()
        name, _, version = requirement.partition("==")
        pins.append(Pin(name, version, tuple(one.removeprefix(HASH) for one in options)))
    return pins


def write_lock(lock: Path, pins: Iterable[Pin]) -> None:
    """The pins under the comments that the file has."""
    head = [line for line in lock.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    body = [str(pin) for pin in sorted(pins, key=lambda pin: pin.name.lower())]
    lock.write_text("\n".join([*head, *body]) + "\n", encoding="utf-8")
