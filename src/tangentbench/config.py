"""Reading YAML and checking it against a JSON schema, with errors that name file, key and reason."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, cast

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

from tangentbench.atomic import read_json
from tangentbench.errors import InvalidConfig
from tangentbench.paths import Paths

SCALES = ("quick", "cpu", "paper")


# The loader in C reads the catalogue ten times faster; both are safe.
SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UniqueKeyLoader(SafeLoader):  # type: ignore[misc]
    """A safe loader that refuses a key given twice, which YAML would silently overwrite."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key '{key}'", key_node.start_mark)
            seen.add(key)
        return cast("dict[Hashable, Any]", super().construct_mapping(node, deep))


def read_yaml(path: Path) -> Any:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=UniqueKeyLoader)
    except FileNotFoundError as error:
        raise InvalidConfig(path, "", "the file is missing: restore it with `git checkout`") from error
    except UnicodeDecodeError as error:
        raise InvalidConfig(path, "", f"it is not UTF-8 text: {error.reason}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InvalidConfig(path, place, f"it is not valid YAML: {reason}") from error


def check(value: Any, schema: Path, source: Path | str) -> None:
    """Raise InvalidConfig naming the deepest key of `value` that does not fit the schema."""
    error = best_match(Draft202012Validator(read_json(schema)).iter_errors(value))
    if error is not None:
        key = ".".join(str(part) for part in error.absolute_path)
        raise InvalidConfig(source, key or "the top level", reason_of(error))


def reason_of(error: ValidationError) -> str:
    if error.validator == "additionalProperties" and isinstance(error.schema, Mapping):
        given = cast("Mapping[str, Any]", error.instance)
        allowed = error.schema.get("properties", {})
        unknown = [str(key) for key in given if key not in allowed]
        return f"unknown key {', '.join(unknown)} (allowed: {', '.join(sorted(allowed))})"
    return error.message


def load_checked(path: Path, schema: Path) -> Any:
    value = read_yaml(path)
    check(value, schema, path)
    return value


def load_settings(paths: Paths, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """config/config.yaml with `overrides` on top, checked together."""
    settings = {**load_checked(paths.settings, paths.schemas / "config.schema.json"), **(overrides or {})}
    check(settings, paths.schemas / "config.schema.json", "the configuration" if overrides else paths.settings)
    return settings
