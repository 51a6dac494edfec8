"""The price of work, and the estimate of an artifact at a scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tangentbench.config import load_checked
from tangentbench.errors import InvalidConfig
from tangentbench.paths import Paths
from tangentbench.studies.gram_work import matrices_gib
from tangentbench.studies.registry import on_settings
from tangentbench.studies.work import Work, work_model
from tangentbench.suite.catalogue import Artifact
from tangentbench.suite.gram_plans import part_plans
from tangentbench.suite.recorded_runs import recorded_run

SECONDS_PER_HOUR = 3600.0
JOB_OVERHEAD_SECONDS = 6.0
"""Start of the interpreter and imports, table and figure, for each job."""
MODEL = "work model"
PROCESS_GIB = 0.5
"""An interpreter with torch and pandas loaded."""


@dataclass(frozen=True)
class Estimate:
    """What building something takes, and what says so; all None where nothing does."""

    core_hours: float | None
    gpu_hours: float | None
    memory_gib: float | None
    disk_gib: float | None
    basis: str = MODEL

    @property
    def known(self) -> bool:
        return self.core_hours is not None

    def as_record(self) -> dict[str, float | str | None]:
        return {
            "core_hours": self.core_hours,
            "gpu_hours": self.gpu_hours,
            "memory_gib": self.memory_gib,
            "disk_gib": self.disk_gib,
            "basis": self.basis,
        }


UNKNOWN = Estimate(None, None, None, None, "unknown")


@dataclass(frozen=True)
class UnitCost:
    device: str
    seconds: float


def load_unit_costs(paths: Paths) -> dict[str, UnitCost]:
    raw = load_checked(paths.unit_costs, paths.schemas / "unit_costs.schema.json")
    return {name: UnitCost(entry["device"], float(entry["seconds"])) for name, entry in raw["units"].items()}


def estimate(
    artifact: Artifact,
    scale: str,
    prices: Mapping[str, UnitCost],
    paths: Paths,
    used: Sequence[Artifact] = (),
) -> Estimate:
    """The cost of one artifact at one scale, once those it uses are built; UNKNOWN if nothing says it."""
    parts = artifact.parts_at(scale)
    works = [
        _with_kept_tiles(one, artifact, scale, part)
        for part in parts
        if (one := part_work(artifact, scale, part, used))
    ]
    if not works:
        return _from_recorded_run(artifact, scale, paths)
    seconds = [price(amount, prices, paths, artifact.name) for amount in works]
    overhead = JOB_OVERHEAD_SECONDS * (len(works) + 1)
    return Estimate(
        core_hours=(overhead + sum(one["cpu"] for one in seconds)) / SECONDS_PER_HOUR,
        gpu_hours=sum(one["gpu"] for one in seconds) / SECONDS_PER_HOUR,
        memory_gib=PROCESS_GIB + max(amount.memory_gib for amount in works),
        disk_gib=sum(amount.disk_gib for amount in works),
    )


def _with_kept_tiles(work: Work, artifact: Artifact, scale: str, part: str) -> Work:
    """Gram matrices whose tiles are jobs of their own stay on disk, all of a part's together."""
    kept = sum(matrices_gib(one.plan.images.train, one.plan.images.test) for one in part_plans(artifact, scale, part))
    return replace(work, disk_gib=max(work.disk_gib, kept))


def _from_recorded_run(artifact: Artifact, scale: str, paths: Paths) -> Estimate:
    """A first guess for an artifact without a work model; its memory and disk at this scale are not known."""
    run = recorded_run(artifact, scale, paths)
    if run is None:
        return UNKNOWN
    core_hours = run.growth * run.core_seconds / SECONDS_PER_HOUR
    memory = run.memory_gib if run.scale == scale else None
    return Estimate(core_hours, gpu_hours=None, memory_gib=memory, disk_gib=None, basis=run.basis)


def price(work: Work, prices: Mapping[str, UnitCost], paths: Paths, what: str) -> dict[str, float]:
    """Seconds by device, `cpu` (of one core) and `gpu`; `what` names the work where a unit has no price."""
    seconds = {"cpu": 0.0, "gpu": 0.0}
    for unit, quantity in work.units.items():
        if unit not in prices:
            raise InvalidConfig(paths.unit_costs, f"units.{unit}", f"{what} needs it and it is not priced")
        seconds[prices[unit].device] += quantity * prices[unit].seconds
    return seconds


def part_work(artifact: Artifact, scale: str, part: str, used: Sequence[Artifact] = ()) -> Work | None:
    """The work of one job of an artifact without what it reuses of the artifacts `used`; None if it has no model."""
    model = work_model(artifact.study, artifact.name)
    if model is None:
        return None
    work = on_settings(model, artifact, artifact.parts_at(scale)[part])
    if not work.reusable:
        return work
    done = {name for other in used for one in works_of(other, scale) for name in one.reusable}
    return without(work, [piece for name, piece in work.reusable.items() if name in done])


def works_of(artifact: Artifact, scale: str) -> list[Work]:
    """The work of every job of an artifact if nothing is reused; none if it has no model."""
    model = work_model(artifact.study, artifact.name)
    return (
        []
        if model is None
        else [on_settings(model, artifact, settings) for settings in artifact.parts_at(scale).values()]
    )


def without(work: Work | None, done_elsewhere: Sequence[Work]) -> Work | None:
    """`work` less the units, and the disk, of work that is done elsewhere."""
    if work is None:
        return None
    units = dict(work.units)
    for one in done_elsewhere:
        for unit, quantity in one.units.items():
            units[unit] = max(0.0, units.get(unit, 0.0) - quantity)
    disk = work.disk_gib - sum(one.disk_gib for one in done_elsewhere)
    return Work(units, work.memory_gib, max(0.0, disk))


def total(estimates: Iterable[Estimate]) -> Estimate:
    """Hours and disk add up, memory is the largest; unknown parts are left out."""
    known = [one for one in estimates if one.known]
    if not known:
        return UNKNOWN
    return Estimate(
        core_hours=sum(one.core_hours or 0.0 for one in known),
        gpu_hours=sum(one.gpu_hours or 0.0 for one in known),
        memory_gib=max(one.memory_gib or 0.0 for one in known),
        disk_gib=sum(one.disk_gib or 0.0 for one in known),
        basis="; ".join(dict.fromkeys(one.basis for one in known)),
    )
