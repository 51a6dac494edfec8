"""What an artifact costs before it runs, as an amount of work that config/unit_costs.yaml prices.

A work model is a light function of the artifact's settings (no torch), in the study's `costs.py`:

    @work("npk_fig6")
    def memorisation(settings: Memorisation) -> Work:
        flops = ...
        return Work({"dense_gflop": flops / 1e9}, memory_gib=..., disk_gib=...)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tangentbench.studies.modules import import_if_there, registrar


@dataclass(frozen=True)
class Work:
    """Amounts of the units of config/unit_costs.yaml, and the largest memory and disk one job of it needs."""

    units: Mapping[str, float] = field(default_factory=dict)
    memory_gib: float = 0.0
    disk_gib: float = 0.0
    reusable: Mapping[str, Work] = field(default_factory=dict)
    """Sub-tasks by name; an artifact does not repeat those that an artifact it uses has under the same name."""


WorkModel = Callable[..., Work]
_MODELS: dict[str, WorkModel] = {}


def work(artifact: str) -> Callable[[WorkModel], WorkModel]:
    """Register the work model of `artifact`; it takes the artifact's settings as its record."""
    return registrar(_MODELS, artifact)


def work_model(study: str, artifact: str) -> WorkModel | None:
    """The work model of an artifact, or None where its study has none for it."""
    import_if_there(f"tangentbench.studies.{study}.costs")
    return _MODELS.get(artifact)


def summed_units(works: Iterable[Work]) -> dict[str, float]:
    units: dict[str, float] = {}
    for one in works:
        for unit, quantity in one.units.items():
            units[unit] = units.get(unit, 0.0) + quantity
    return units
