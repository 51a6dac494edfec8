"""The modules of a study's folder, imported when something of theirs is asked for, and how they register it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, TypeVar

from tangentbench.errors import TangentbenchError

T = TypeVar("T")


def import_if_there(module: str) -> bool:
    """Import a study's module and, where it is a package, every module in it; False where there is none."""
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        return False
    for found in pkgutil.iter_modules(getattr(imported, "__path__", ())):
        importlib.import_module(f"{module}.{found.name}")
    return True


def registrar(table: dict[str, Any], *artifacts: str) -> Callable[[T], T]:
    """A decorator that puts what it decorates into `table` under each of the names; one module owns a name."""

    def register(entry: T) -> T:
        for artifact in artifacts:
            known = table.setdefault(artifact, entry)
            if known.__module__ != entry.__module__:
                raise TangentbenchError(
                    f"{artifact} is registered in {known.__module__} and in {entry.__module__}: keep one"
                )
            table[artifact] = entry
        return entry

    return register
