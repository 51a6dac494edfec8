"""What a name of the catalogue runs: study functions, figure functions, work models, each found by its decorator.

A module put into `studies/`, `figures/` or `costs/` is picked up by itself.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tangentbench.device import current
from tangentbench.errors import InvalidConfig, TangentbenchError

if TYPE_CHECKING:
    import pandas as pd
    import torch
    from matplotlib.figure import Figure

    from tangentbench.catalogue import Artifact
    from tangentbench.datasets import Dataset


@dataclass(frozen=True)
class GramStore:
    """Where the matrices of a plan lie: `folder`/train and `folder`/test."""

    folder: Path
    tile: int


@dataclass(frozen=True)
class Context:
    """What a study function is given besides its settings."""

    seed: int
    datasets: Mapping[str, Dataset] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Tables of the artifacts named in `uses`."""
    grams: Mapping[str, GramStore] = field(default_factory=dict)
    """Matrices that the workflow computed tile by tile, by the names of the study's plans."""
    work: Path | None = None
    """A folder for checkpoints, kept until the job has finished."""
    threads: int = 1

    @property
    def device(self) -> torch.device:
        """Where torch computes; the training loop and the kernels use it without being told."""
        return current()

    @property
    def dataset(self) -> Dataset:
        """The only data set, for studies with one."""
        (only,) = self.datasets.values()
        return only


class StudyFunction(Protocol):
    """Settings in by name, a tidy table out. Its keyword parameters are the settings the catalogue must give."""

    def __call__(self, context: Context, /, **settings: Any) -> pd.DataFrame: ...


FigureFunction = Callable[["pd.DataFrame", "Artifact"], "Figure"]

F = TypeVar("F", bound=Callable[..., Any])

_STUDIES: dict[str, StudyFunction] = {}
_FIGURES: dict[str, FigureFunction] = {}


def study(artifact: str) -> Callable[[F], F]:
    """Register the function that measures `artifact`."""
    return _registrar(_STUDIES, artifact)


def figure(artifact: str) -> Callable[[F], F]:
    """Register the function that draws `artifact`."""
    return _registrar(_FIGURES, artifact)


def _registrar(table: dict[str, Any], artifact: str) -> Callable[[F], F]:
    def register(function: F) -> F:
        if artifact in table and table[artifact].__module__ != function.__module__:
            raise TangentbenchError(
                f"{artifact} is registered in {table[artifact].__module__} and in {function.__module__}: keep one"
            )
        table[artifact] = function
        return function

    return register


def study_function(artifact: Artifact) -> StudyFunction:
    return _lookup(_STUDIES, "studies", artifact)  # type: ignore[no-any-return]


def figure_function(artifact: Artifact) -> FigureFunction:
    return _lookup(_FIGURES, "figures", artifact)  # type: ignore[no-any-return]


def _lookup(table: Mapping[str, Any], room: str, artifact: Artifact) -> Any:
    module = f"tangentbench.{room}.{artifact.study}"
    import_room_module(module)
    if artifact.name not in table:
        file = f"src/{module.replace('.', '/')}.py"
        raise TangentbenchError(f"no function is registered for {artifact.name}: add one with its decorator to {file}")
    return table[artifact.name]


def import_room_module(module: str) -> None:
    """Import a study's module of a room and, where it is a package, every module in it."""
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise TangentbenchError(f"the module {module} is missing: add src/{module.replace('.', '/')}.py") from error
    for found in pkgutil.iter_modules(getattr(imported, "__path__", ())):
        importlib.import_module(f"{module}.{found.name}")


def check_settings(function: StudyFunction, settings: Mapping[str, Any], file: Path | str, artifact: str) -> None:
    """Raise InvalidConfig where the catalogue's settings are not the function's keyword parameters."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    names = {parameter.name for parameter in parameters}
    needed = {parameter.name for parameter in parameters if parameter.default is parameter.empty}
    key = f"artifacts.{artifact}.settings"
    if unknown := sorted(set(settings) - names):
        raise InvalidConfig(file, key, f"unknown setting {', '.join(unknown)} (allowed: {', '.join(sorted(names))})")
    if missing := sorted(needed - set(settings)):
        raise InvalidConfig(file, key, f"missing setting {', '.join(missing)}")
