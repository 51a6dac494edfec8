"""Recipes: a data set is a source and the transforms that follow, read from config/datasets.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tangentbench.datasets.prepare.readers import parameters_of
from tangentbench.datasets.prepare.sources import make_source, read_configuration
from tangentbench.errors import InvalidConfig
from tangentbench.paths import Paths


@dataclass(frozen=True)
class DatasetRecipe:
    """What config/datasets.yaml says of one data set; `parameters` are the source's with the data set's own on top."""

    name: str
    source: str
    description: str
    transforms: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)


def load_recipes(paths: Paths) -> dict[str, DatasetRecipe]:
    """Every data set of config/datasets.yaml by name."""
    configuration = read_configuration(paths)
    sources = {name: make_source(paths.datasets, name, entry) for name, entry in configuration["sources"].items()}
    recipes = {}
    for name, entry in configuration["datasets"].items():
        if entry["source"] not in sources:
            reason = f"there is no source '{entry['source']}' (there are: {', '.join(sources)})"
            raise InvalidConfig(paths.datasets, f"datasets.{name}.source", reason)
        source = sources[entry["source"]]
        recipes[name] = DatasetRecipe(
            name=name,
            source=source.name,
            description=entry["description"],
            transforms=tuple(item for step in entry.get("transforms", ()) for item in step.items()),
            parameters={**source.parameters, **entry.get("parameters", {})},
        )
        needed, given = set(parameters_of(source.format)), set(recipes[name].parameters)
        if needed != given:
            reason = f"the format {source.format} takes {', '.join(sorted(needed)) or 'none'}"
            wrong = ", ".join(sorted(needed ^ given))
            raise InvalidConfig(
                paths.datasets, f"datasets.{name}.parameters", f"{wrong} is missing or unknown; {reason}"
            )
    return recipes
