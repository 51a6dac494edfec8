"""An artifact without a work model is priced from its own runs, and the estimate says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tiny_project import TinyProject

from tangentbench.suite.catalogue import Artifact
from tangentbench.suite.costs import Estimate, estimate
from tangentbench.suite.recorded_runs import growth


def alpha(project: TinyProject) -> Artifact:
    """alpha_fig1, which was built with widths 10 and 100, with widths four times as large at scale cpu."""
    artifact = project.catalogue.artifact("alpha_fig1")
    return replace(artifact, scales={**artifact.scales, "cpu": {"settings": {"widths": [200, 240], "label": "b"}}})


def priced(project: TinyProject, scale: str) -> Estimate:
    return estimate(alpha(project), scale, {}, project.paths)


def test_a_larger_scale_takes_longer_as_its_settings_grow(built: TinyProject) -> None:
    quick, cpu = priced(built, "quick"), priced(built, "cpu")
    assert quick.basis == "recorded run at scale quick"
    assert quick.memory_gib is not None and quick.memory_gib > 0
    assert cpu.basis == "recorded run at scale quick times 4, as its numbers and lists of settings grow"
    assert quick.core_hours is not None
    assert cpu.core_hours == pytest.approx(4 * quick.core_hours)
    assert cpu.memory_gib is None


def test_without_a_run_the_price_is_unknown(tiny: TinyProject) -> None:
    cost = priced(tiny, "cpu")
    assert (cost.known, cost.basis) == (False, "unknown")
    assert cost.as_record()["core_hours"] is None


@pytest.mark.parametrize(
    ("before", "after", "times"),
    [
        ({"runs": 5}, {"runs": 20}, 4.0),
        ({"widths": [64, 256]}, {"widths": [64, 256, 320]}, 2.0),
        ({"laws": ["a"]}, {"laws": ["a", "b", "c"]}, 3.0),
        ({"rate": 0.1, "name": "a", "biased": True}, {"rate": 1.0, "name": "b", "biased": False}, 1.0),
        ({"images": {"train": 10, "test": 5}, "runs": 1}, {"images": {"train": 20, "test": 5}, "runs": 3}, 6.0),
        ({"runs": 5, "old": 1}, {"runs": 5, "new": 7}, 1.0),
        ({"offset": 0}, {"offset": 3}, 1.0),
    ],
)
def test_growth(before: dict[str, Any], after: dict[str, Any], times: float) -> None:
    assert growth(before, after) == pytest.approx(times)
