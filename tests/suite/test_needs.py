"""What a job asks of a scheduler follows its estimate, with the floors and factors of config/cluster.yaml."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tangentbench.errors import InvalidConfig
from tangentbench.paths import Paths
from tangentbench.studies.work import Work
from tangentbench.suite.costs import estimate, load_unit_costs, without
from tangentbench.suite.needs import Cluster
from tangentbench.suite.workflow import Wiring

ROOT = Path(__file__).resolve().parents[2]
PATHS = Paths(ROOT)
PRICES = load_unit_costs(PATHS)
CLUSTER = Cluster.load(PATHS, PRICES)
SETTINGS = CLUSTER.settings


def core_hours(unit: str, hours: float) -> Work:
    return Work({unit: hours * 3600 / PRICES[unit].seconds}, memory_gib=10.0)


def needs(work: Work | None, threads: int = 1) -> Any:
    return CLUSTER.needs(work, threads, "a test")


def test_small_work_asks_for_the_least() -> None:
    asked = needs(Work())
    assert (asked.minutes, asked.memory_mb, asked.gpus, asked.small) == (
        SETTINGS["minutes"]["least"],
        SETTINGS["memory_mb"]["least"],
        0,
        True,
    )


def test_minutes_and_memory_are_the_estimate_times_the_factor() -> None:
    asked = needs(core_hours("cholesky_gflop", 2.0))
    assert asked.minutes == pytest.approx(120 * SETTINGS["minutes"]["factor"], rel=0.01)
    assert asked.memory_mb == pytest.approx(10.5 * 1024 * SETTINGS["memory_mb"]["factor"], rel=0.01)
    assert not asked.small


def test_threads_shorten_the_job() -> None:
    work = core_hours("cholesky_gflop", 8.0)
    assert needs(work, threads=4).minutes < needs(work).minutes / 3


def test_no_job_asks_for_longer_than_a_partition_allows() -> None:
    assert needs(core_hours("cholesky_gflop", 1e4)).minutes == SETTINGS["minutes"]["most"]


def test_unmodelled_work_asks_for_what_the_configuration_says() -> None:
    asked = needs(None)
    assert (asked.minutes, asked.memory_mb) == (SETTINGS["minutes"]["unknown"], SETTINGS["memory_mb"]["unknown"])
    assert not asked.small


@pytest.mark.parametrize("unit", ["convolution_gflop", "network_gflop"])
def test_long_network_work_asks_for_a_gpu(unit: str) -> None:
    hours = SETTINGS["gpu"]["core_hours"]
    assert needs(core_hours(unit, 2 * hours)).gpus == 1
    assert needs(core_hours(unit, hours / 2)).gpus == 0


@pytest.mark.parametrize("unit", ["cholesky_gflop", "dense_gflop", "flow_step"])
def test_what_stays_on_the_cpu_asks_for_none(unit: str) -> None:
    assert needs(core_hours(unit, 2 * SETTINGS["gpu"]["core_hours"])).gpus == 0


def test_networks_work_has_the_price_of_the_same_products() -> None:
    assert PRICES["network_gflop"] == PRICES["dense_gflop"]


def test_what_tiles_compute_is_not_asked_for_twice() -> None:
    left = without(Work({"cntk_gap_gstep": 5.0, "cholesky_gflop": 1.0}), [Work({"cntk_gap_gstep": 4.0})])
    assert left is not None
    assert left.units == {"cntk_gap_gstep": 1.0, "cholesky_gflop": 1.0}


def test_unknown_gpu_unit_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/schemas").symlink_to(ROOT / "config/schemas")
    text = (ROOT / "config/cluster.yaml").read_text()
    (tmp_path / "config/cluster.yaml").write_text(text.replace("convolution_gflop", "convolution_flop"))
    with pytest.raises(InvalidConfig, match="convolution_flop is no unit"):
        Cluster.load(Paths(tmp_path), PRICES)


@pytest.fixture(scope="module")
def wiring() -> Wiring:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return Wiring.load({"scale": "paper"})


@pytest.mark.parametrize("scale", ["quick", "cpu", "paper"])
def test_parts_ask_for_what_estimate_says(wiring: Wiring, scale: str) -> None:
    """Summed over its parts, an artifact asks for at least its estimated time, and its largest part for its memory."""
    for artifact in wiring.catalogue:
        cost = estimate(artifact, scale, PRICES, PATHS, wiring.catalogue.used_by(artifact, scale))
        if not cost.known or artifact.tile_jobs_at(scale):
            continue
        parts = [SimpleNamespace(artifact=artifact.name, scale=scale, part=part) for part in artifact.parts_at(scale)]
        asked = [wiring.part(one) for one in parts]
        assert max(one.memory_mb for one in asked) >= 1024 * cost.memory_gib, artifact.name  # type: ignore[operator]
        if all(one.minutes < SETTINGS["minutes"]["most"] for one in asked):
            assert sum(one.minutes for one in asked) * artifact.threads >= 60 * (cost.core_hours or 0.0), artifact.name


def test_artifacts_that_wait_for_each_other_share_no_submission(wiring: Wiring) -> None:
    used = {name for artifact in wiring.catalogue for name in artifact.uses_at("quick")}
    assert "conditioning_fig3" in used
    for artifact in wiring.catalogue:
        if artifact.uses_at("quick") or artifact.name in used:
            part = next(iter(artifact.parts_at("quick")))
            assert not wiring.part(SimpleNamespace(artifact=artifact.name, scale="quick", part=part)).small


@pytest.mark.parametrize(
    ("name", "asks"),
    [
        ("npk_table2", True),
        ("bounds_figD_2", True),
        ("tensor_programs_figA_7", True),
        ("conditioning_training", True),
        ("conditioning_theorem3", False),
        ("npk_fig6", False),
    ],
)
def test_the_papers_long_trainings_ask_for_a_gpu(wiring: Wiring, name: str, asks: bool) -> None:
    parts = wiring.catalogue.artifact(name).parts_at("paper")
    asked = [wiring.part(SimpleNamespace(artifact=name, scale="paper", part=part)).gpus for part in parts]
    assert any(asked) == asks


def test_tiles_ask_for_a_gpu_where_the_cluster_says_so(wiring: Wiring) -> None:
    """A long tile of the CNTK, which Triton computes on a GPU."""
    settings = {**SETTINGS, "gpu": {"units": ["cntk_gap_gstep", "cntk_flatten_gstep"], "core_hours": 0.0}}
    plan = next(iter(wiring.grams("paper").of("cntk_table1").values()))
    tile = SimpleNamespace(inputs=plan.inputs, kernel=plan.key, scale="paper")
    assert wiring.tile(tile).gpus == 0
    asking = replace(wiring)
    asking.__dict__["_cluster"] = replace(CLUSTER, settings=settings)
    assert asking.tile(tile).gpus == 1


def test_no_gpu_is_asked_for_where_none_is_wanted(wiring: Wiring) -> None:
    one = next(
        found
        for artifact in wiring.catalogue
        for part in artifact.parts_at("paper")
        if wiring.part(found := SimpleNamespace(artifact=artifact.name, scale="paper", part=part)).gpus
    )
    assert replace(wiring, settings={**wiring.settings, "device": "cpu"}).part(one).gpus == 0
