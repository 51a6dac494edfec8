"""What an artifact took when it was built at a smaller scale, for a first guess where it has no work model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tangentbench.atomic import read_json
from tangentbench.config import SCALES
from tangentbench.paths import Paths
from tangentbench.suite.catalogue import Artifact

MIB_PER_GIB = 1024.0


@dataclass(frozen=True)
class RecordedRun:
    """The run at `scale`, and how much larger the settings of the scale asked for are."""

    scale: str
    core_seconds: float
    memory_gib: float
    growth: float

    @property
    def basis(self) -> str:
        grown = "" if self.growth == 1 else f" times {self.growth:.3g}, as its numbers and lists of settings grow"
        return f"recorded run at scale {self.scale}{grown}"


def recorded_run(artifact: Artifact, scale: str, paths: Paths) -> RecordedRun | None:
    """The run at the largest scale up to `scale` that was built; None where there is none."""
    for smaller in reversed(SCALES[: SCALES.index(scale) + 1]):
        file = paths.provenance(smaller, artifact.study, artifact.name)
        if file.is_file():
            record = read_json(file)
            return RecordedRun(
                scale=smaller,
                core_seconds=float(record["seconds"] * record["threads"]),
                memory_gib=float(record["peak_memory_mib"] / MIB_PER_GIB),
                growth=growth(record["settings"], artifact.settings_at(scale)),
            )
    return None


def growth(before: Any, after: Any) -> float:
    """How much larger settings are: the product of the growth of every whole number and list that both have.

    A list of whole numbers counts by its sum (widths), any other by its length; what is neither, such as a learning
    rate, a name or a switch, does not count. True for work that is proportional to each of them.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        product = 1.0
        for key in before.keys() & after.keys():
            product *= growth(before[key], after[key])
        return product
    sizes = _size(before), _size(after)
    return sizes[1] / sizes[0] if sizes[0] > 0 and sizes[1] > 0 else 1.0


def _size(value: Any) -> float:
    if isinstance(value, list):
        whole = all(isinstance(one, int) and not isinstance(one, bool) for one in value)
        return float(sum(value)) if whole else float(len(value))
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else 0.0
