"""What a name of the catalogue runs: study functions, figure functions, Gram plans, each found by its decorator.

A study is a folder here: what lies in its `measure`, `figures`, `costs` and `plans` is picked up by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tangentbench.device import current
from tangentbench.errors import TangentbenchError
from tangentbench.identity import WorkFolder
from tangentbench.studies.modules import import_if_there, registrar
from tangentbench.studies.settings import Settings, read_settings, settings_record

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
    work: WorkFolder | None = None
    """A folder for checkpoints, bound to this very job and kept until it has finished."""
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


StudyFunction = Callable[["Context", Any], "pd.DataFrame"]
"""(context, settings as a record) -> a tidy table."""
FigureFunction = Callable[["pd.DataFrame", "Artifact"], "Figure"]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

PlanFunction = Callable[..., Sequence["KernelPlan"]]

_STUDIES: dict[str, StudyFunction] = {}
_FIGURES: dict[str, FigureFunction] = {}
_PLANS: dict[str, PlanFunction] = {}


def study(artifact: str) -> Callable[[F], F]:
    """Register the function that measures `artifact`."""
    return registrar(_STUDIES, artifact)


def figure(artifact: str) -> Callable[[F], F]:
    """Register the function that draws `artifact`."""
    return registrar(_FIGURES, artifact)


def gram_plans(artifact: str) -> Callable[[F], F]:
    """Register the function that makes an artifact's kernel plans of the settings of one part."""
    return registrar(_PLANS, artifact)


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


def settings_for(artifact: Artifact, raw: Mapping[str, Any]) -> Settings:
    """`raw`, the catalogue's settings of `artifact`, as its record; InvalidConfig says what does not fit."""
    file = f"src/tangentbench/studies/{artifact.study}/catalogue.yaml"
    record = settings_record(artifact.study, artifact.name)
    return read_settings(record, raw, file, f"artifacts.{artifact.name}.settings")


def on_settings(function: Callable[..., T], artifact: Artifact, raw: Mapping[str, Any], *leading: Any) -> T:
    """Call a study, plan or work function of `artifact` on the settings `raw`, read as its record."""
    return function(*leading, settings_for(artifact, raw))
