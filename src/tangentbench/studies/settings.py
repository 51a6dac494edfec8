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
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform

import msgspec
import msgspec.inspect

from tangentbench.errors import InvalidConfig, TangentbenchError
from tangentbench.studies.modules import import_if_there, registrar


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of every record; groups of settings inside one are records too."""


Positive = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]

S = TypeVar("S", bound=Settings)
_RECORDS: dict[str, type[Settings]] = {}
_PLACE = re.compile(r"^(?P<reason>.*?) - at (?:`key` in )?`\$\.?(?P<key>.*)`$", re.DOTALL)


class WrongSetting(ValueError):
    """For a record's `__post_init__`: the setting `key` cannot have its value next to the others, and why."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


def settings_of(*artifacts: str) -> Callable[[type[S]], type[S]]:
    """Register the record of one or several artifacts' settings."""
    return registrar(_RECORDS, *artifacts)


DatasetChoice = Callable[..., Iterable[str]]
_DATASET_CHOICES: dict[str, DatasetChoice] = {}


def datasets_of(artifact: str) -> Callable[[DatasetChoice], DatasetChoice]:
    """Register which of an artifact's data sets a part needs, in the study's `settings.py`.

    A function of the names that the catalogue gives at the scale and of the part's settings; without one, a part
    loads them all:

        @datasets_of("npk_table2")
        def of_rows(names: tuple[str, ...], settings: GateTable) -> list[str]: ...
    """
    return registrar(_DATASET_CHOICES, artifact)


def dataset_choice(study: str, artifact: str) -> DatasetChoice | None:
    import_if_there(f"tangentbench.studies.{study}.settings")
    return _DATASET_CHOICES.get(artifact)


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
        return msgspec.convert(raw, record, dec_hook=_parsed)
    except msgspec.ValidationError as error:
        found = _PLACE.match(str(error))
        reason, inner = (found["reason"], found["key"]) if found else (str(error), "")
        plain = _plain(reason, _type_at(record, inner))
        if isinstance(error.__cause__, WrongSetting):
            inner = ".".join(piece for piece in (inner, error.__cause__.key) if piece)
        raise InvalidConfig(file, f"{key}.{inner}" if inner else key, plain) from None


def _parsed(wanted: type[Any], value: Any) -> Any:
    """A type of a study's own is made by its `parse`, from what the YAML has; a ValueError says what does not fit."""
    return wanted.parse(value)


def _type_at(record: type[Settings], key: str) -> msgspec.inspect.Type:
    """The type that the record wants at a key like `train_images[...]`; for a mapping's own key, the mapping."""
    found = msgspec.inspect.type_info(record)
    for name, item in re.findall(r"([^.\[\]]+)|\[([^\]]*)\]", key):
        if name:
            fields = [field.type for field in _fields(found) if field.encode_name == name]
            found = fields[0] if fields else found
        elif isinstance(found, msgspec.inspect.DictType):
            found = found.value_type
        elif isinstance(found, msgspec.inspect.TupleType):
            found = found.item_types[int(item)]
        else:
            found = getattr(found, "item_type", found)
    return found


def _fields(wanted: msgspec.inspect.Type) -> list[msgspec.inspect.Field]:
    """Those of a record, or of every record that could stand at this place."""
    return [field for one in _kinds(wanted) if isinstance(one, msgspec.inspect.StructType) for field in one.fields]


def _kinds(wanted: msgspec.inspect.Type) -> tuple[msgspec.inspect.Type, ...]:
    return wanted.types if isinstance(wanted, msgspec.inspect.UnionType) else (wanted,)


def _plain(reason: str, wanted: msgspec.inspect.Type) -> str:
    """The reason in the words of the other configuration errors."""
    if unknown := re.search(r"unknown field `(.*)`", reason):
        return f"unknown setting {unknown[1]} (allowed: {', '.join(sorted({one.name for one in _fields(wanted)}))})"
    if missing := re.search(r"missing required field `(.*)`", reason):
        return f"missing setting {missing[1]}"
    if other := re.search(r"Invalid (?:enum )?value (.*)", reason):
        kinds = _kinds(wanted.key_type if isinstance(wanted, msgspec.inspect.DictType) else wanted)
        values = [str(one) for kind in kinds if isinstance(kind, msgspec.inspect.LiteralType) for one in kind.values]
        tags = [str(kind.tag) for kind in kinds if isinstance(kind, msgspec.inspect.StructType)]
        return f"{other[1]} is not known here (allowed: {', '.join(values or tags)})"
    return reason[:1].lower() + reason[1:]
