"""What a name of the catalogue runs: study functions, figure functions, Gram plans, each found by its decorator.

A study is a folder here: what lies in its `measure`, `figures`, `costs` and `plans` is picked up by itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tangentbench.device import current
from tangentbench.errors import InvalidConfig, TangentbenchError
from tangentbench.studies.modules import import_if_there
from tangentbench.studies.settings import read_settings, settings_record

if TYPE_CHECKING:
    import pandas as pd
    import torch
    from matplotlib.figure import Figure

    from tangentbench.datasets import Dataset
    from tangentbench.gram.plans import KernelPlan
    from tangentbench.suite.catalogue import Artifact


@dataclass(frozen=True)
class GramStore:
    """Matrices that the workflow computed, `folder`/train and `folder`/test, and the images they are of.

    train_images, test_images: arrays (n, side, side, channels) in files of numpy, prepared as the plan says.
    """

    folder: Path
    tile: int
    train_images: Path
    test_images: Path


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
T = TypeVar("T")

PlanFunction = Callable[..., Sequence["KernelPlan"]]

_STUDIES: dict[str, StudyFunction] = {}
_FIGURES: dict[str, FigureFunction] = {}
_PLANS: dict[str, PlanFunction] = {}


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


def gram_plans(artifact: str) -> Callable[[F], F]:
    """Register the function that makes an artifact's kernel plans of the settings of one part."""
    return _registrar(_PLANS, artifact)


def study_function(artifact: Artifact) -> StudyFunction:
    return _lookup(_STUDIES, "measure", artifact.study, artifact.name)  # type: ignore[no-any-return]


def figure_function(artifact: Artifact) -> FigureFunction:
    return _lookup(_FIGURES, "figures", artifact.study, artifact.name)  # type: ignore[no-any-return]


def plan_function(study: str, artifact: str) -> PlanFunction:
    return _lookup(_PLANS, "plans", study, artifact)  # type: ignore[no-any-return]


def _lookup(table: Mapping[str, Any], part: str, study: str, artifact: str) -> Any:
    module = f"tangentbench.studies.{study}.{part}"
    file = f"src/{module.replace('.', '/')}.py"
    if not import_if_there(module):
        raise TangentbenchError(f"the module {module} is missing: add {file}")
    if artifact not in table:
        raise TangentbenchError(f"no function is registered for {artifact}: add one with its decorator to {file}")
    return table[artifact]


def takes_record(function: Callable[..., Any]) -> bool:
    last = list(inspect.signature(function).parameters.values())[-1]
    return last.name == "settings" and last.kind is last.POSITIONAL_OR_KEYWORD


def on_settings(function: Callable[..., T], artifact: Artifact, raw: Mapping[str, Any], *leading: Any) -> T:
    """Call a study, plan or work function of `artifact` on the settings `raw`, read as its record."""
    if takes_record(function):
        file = f"src/tangentbench/studies/{artifact.study}/catalogue.yaml"
        record = settings_record(artifact.study, artifact.name)
        return function(*leading, read_settings(record, raw, file, f"artifacts.{artifact.name}.settings"))
    return function(*leading, **raw)  # a study that is not moved to records yet


def check_settings(
    function: StudyFunction, settings: Mapping[str, Any], file: Path | str, study: str, artifact: str
) -> None:
    """Raise InvalidConfig where the catalogue's settings are not the function's keyword parameters."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if takes_record(function):
        read_settings(settings_record(study, artifact), settings, file, f"artifacts.{artifact}.settings")
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    names = {parameter.name for parameter in parameters}
    needed = {parameter.name for parameter in parameters if parameter.default is parameter.empty}
    key = f"artifacts.{artifact}.settings"
    if unknown := sorted(set(settings) - names):
        raise InvalidConfig(file, key, f"unknown setting {', '.join(unknown)} (allowed: {', '.join(sorted(names))})")
    if missing := sorted(needed - set(settings)):
        raise InvalidConfig(file, key, f"missing setting {', '.join(missing)}")
