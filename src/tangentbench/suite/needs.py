"""What one job asks of a scheduler: the price of its work, with the floors and factors of config/cluster.yaml."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tangentbench.config import load_checked
from tangentbench.errors import InvalidConfig
from tangentbench.paths import Paths
from tangentbench.studies.work import Work
from tangentbench.suite.costs import JOB_OVERHEAD_SECONDS, PROCESS_GIB, SECONDS_PER_HOUR, UnitCost, price

MIB_PER_GIB = 1024


@dataclass(frozen=True)
class Needs:
    """What the first attempt at a job asks for; `small` jobs are worth sharing a submission."""

    threads: int
    minutes: int
    memory_mb: int
    gpus: int
    small: bool


@dataclass(frozen=True)
class Cluster:
    """config/cluster.yaml and the prices of config/unit_costs.yaml."""

    settings: Mapping[str, Any]
    prices: Mapping[str, UnitCost]
    paths: Paths

    @classmethod
    def load(cls, paths: Paths, prices: Mapping[str, UnitCost]) -> Cluster:
        settings = load_checked(paths.cluster, paths.schemas / "cluster.schema.json")
        for unit in settings["gpu"]["units"]:
            if unit not in prices:
                raise InvalidConfig(paths.cluster, "gpu.units", f"{unit} is no unit of {paths.unit_costs}")
        return cls(settings, prices, paths)

    def needs(self, work: Work | None, threads: int, what: str) -> Needs:
        """Of a job that does `work` with `threads` cores (None: it has no work model); `what` names it in errors."""
        minutes, memory = self.settings["minutes"], self.settings["memory_mb"]
        if work is None:
            return Needs(threads, minutes["unknown"], memory["unknown"], gpus=0, small=False)
        seconds = price(work, self.prices, self.paths, what)
        estimated = (JOB_OVERHEAD_SECONDS + seconds["cpu"] / threads + seconds["gpu"]) / 60
        asked = max(minutes["least"], math.ceil(minutes["factor"] * estimated))
        needed_mb = memory["factor"] * (PROCESS_GIB + work.memory_gib) * MIB_PER_GIB
        return Needs(
            threads=threads,
            minutes=min(asked, minutes["most"]),
            memory_mb=max(memory["least"], math.ceil(needed_mb)),
            gpus=int(seconds["gpu"] > 0 or self.suits_gpu(work)),
            small=bool(estimated < self.settings["small_minutes"]),
        )

    def suits_gpu(self, work: Work) -> bool:
        units = self.settings["gpu"]["units"]
        seconds = sum(work.units.get(unit, 0.0) * self.prices[unit].seconds for unit in units)
        return bool(seconds >= self.settings["gpu"]["core_hours"] * SECONDS_PER_HOUR and seconds > 0)
