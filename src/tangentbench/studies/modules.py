"""The modules of a study's folder, imported when something of theirs is asked for."""

from __future__ import annotations

import importlib
import pkgutil


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
