"""Settings of an artifact as a typed record: read and checked once, shared by measuring, pricing and planning.

A study's `settings.py` (or its `measure.py`, where it has no work model) defines them; a missing or unknown key, a
wrong type or a value out of range is said with the file and the key:

    @settings_of("npk_fig6")
    class Memorisation(Settings):
        widths: tuple[Positive, ...]
        learning_rate: float
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from tangentbench.errors import InvalidConfig, TangentbenchError
from tangentbench.studies.modules import import_if_there


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of every record; groups of settings inside one are records too."""


Positive = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]

S = TypeVar("S", bound=Settings)
_RECORDS: dict[str, type[Settings]] = {}
_PLACE = re.compile(r"^(?P<reason>.*) - at `\$\.?(?P<key>.*)`$", re.DOTALL)


def settings_of(*artifacts: str) -> Callable[[type[S]], type[S]]:
    """Register the record of one or several artifacts' settings."""

    def register(record: type[S]) -> type[S]:
        for artifact in artifacts:
            known = _RECORDS.setdefault(artifact, record)
            if known.__module__ != record.__module__:
                raise TangentbenchError(
                    f"the settings of {artifact} are defined in {known.__module__} and in {record.__module__}: keep one"
                )
            _RECORDS[artifact] = record
        return record

    return register


def settings_record(study: str, artifact: str) -> type[Settings]:
    """The record of an artifact's settings; heavy modules are imported only if no `settings.py` defines it."""
    for module in ("settings", "measure"):
        import_if_there(f"tangentbench.studies.{study}.{module}")
        if artifact in _RECORDS:
            return _RECORDS[artifact]
    raise TangentbenchError(
        f"no record of settings is registered for {artifact}: add one with @settings_of to "
        f"src/tangentbench/studies/{study}/settings.py"
    )


def read_settings(record: type[S], raw: Mapping[str, Any], file: Path | str, key: str) -> S:
    """`raw`, the settings under `key` of `file`, as the record; InvalidConfig says what does not fit."""
    try:
        return msgspec.convert(raw, record)
    except msgspec.ValidationError as error:
        found = _PLACE.match(str(error))
        reason, inner = (found["reason"], found["key"]) if found else (str(error), "")
        raise InvalidConfig(file, f"{key}.{inner}" if inner else key, _plain(reason, record)) from None


def _plain(reason: str, record: type[Settings]) -> str:
    """The reason in the words of the other configuration errors."""
    if unknown := re.search(r"unknown field `(.*)`", reason):
        return f"unknown setting {unknown[1]} (allowed: {', '.join(sorted(record.__struct_fields__))})"
    if missing := re.search(r"missing required field `(.*)`", reason):
        return f"missing setting {missing[1]}"
    return reason[:1].lower() + reason[1:]
