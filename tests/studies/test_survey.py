"""The survey of the cost of kernel regression, on a few tiny images."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pytest

from tangentbench.claims import evaluate
from tangentbench.datasets import Dataset
from tangentbench.errors import InvalidConfig
from tangentbench.identity import WorkFolder
from tangentbench.kernels.architectures import resnet50
from tangentbench.kernels.network import AveragePool, Convolution, Dense, GlobalAveragePool, Relu, covariance_operations
from tangentbench.paths import Paths, find_root
from tangentbench.studies.registry import Context, figure_function
from tangentbench.studies.settings import Settings, read_settings
from tangentbench.studies.survey.measure.images import prepared
from tangentbench.studies.survey.measure.measurement import (
    collected,
    cost_against_images,
    cost_against_side,
    entry_ratios,
    with_laws,
)
from tangentbench.studies.survey.measure.regimes import NeuralTangents, Ours
from tangentbench.studies.survey.measure.stages import timed
from tangentbench.studies.survey.settings import AgainstImages, AgainstSide, ResNet50, Timing
from tangentbench.suite.catalogue import load_catalogue

S = TypeVar("S", bound=Settings)
COMMON: dict[str, Any] = {
    "architecture": {"name": "myrtle", "depth": 5, "channels": 4},
    "kernels": ["ntk", "empirical_ntk"],
    "backends": ["neural_tangents", "torch"],
    "integration": {"steps": 200, "step_share": 0.5},
    "finite_gib": 0.01,
    "timing": {"repeats": 1, "seconds": 0.1},
}
BY_IMAGES: dict[str, Any] = {
    **COMMON,
    "loss": "binary_cross_entropy",
    "batch_size": 2,
    "train_sizes": {"neural_tangents": [2, 4, 8], "torch": [2, 4, 8], "finite": [2, 4, 8]},
    "test_images": {"neural_tangents": 4, "torch": 24, "finite": 24},
    "image_side": 8,
    "extrapolate_to": 1000,
}
BY_SIDE: dict[str, Any] = {
    **COMMON,
    "backends": ["torch"],
    "loss": "cross_entropy",
    "batch_size": 1,
    "sides": {"torch": [4, 8, 12], "finite": [4, 8, 12]},
    "train_images": 6,
    "test_images": {"torch": 3, "finite": 3},
    "extrapolate_to_side": 224,
    "extrapolate_to_images": 12,
}


def read(record: type[S], raw: dict[str, Any]) -> S:
    return read_settings(record, raw, "catalogue.yaml", "settings")


def striped(classes: int, seed: int = 0) -> Dataset:
    """8x8 colour images whose class is the direction of a gradient, with noise."""
    rng = np.random.default_rng(seed)
    across, down = np.meshgrid(np.linspace(-1, 1, 8), np.linspace(-1, 1, 8))

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.arange(count) % classes
        angles = 2 * np.pi * labels[:, None, None] / classes
        pattern = np.cos(angles) * across + np.sin(angles) * down
        noise = 0.05 * rng.normal(size=(count, 8, 8, 3))
        return (0.5 + 0.3 * pattern[..., None] + noise).astype(np.float32), labels.astype(np.int64)

    return Dataset("striped", *draw(60), *draw(24), classes=tuple("abc"[:classes]))


@pytest.fixture(scope="module")
def by_images() -> pd.DataFrame:
    context = Context(seed=0, datasets={"striped": striped(2)})
    return cost_against_images(context, read(AgainstImages, BY_IMAGES))


@pytest.fixture(scope="module")
def by_side() -> pd.DataFrame:
    context = Context(seed=0, datasets={"striped": striped(3)})
    return cost_against_side(context, read(AgainstSide, BY_SIDE))


def test_every_stage_is_timed_and_counted(by_images: pd.DataFrame) -> None:
    measured = by_images[by_images["measured"] & (by_images["stage"] != "compilation")]
    assert len(measured) == 3 * 3 * 3
    assert (measured[["seconds", "operations"]] > 0).all(axis=None)
    assert measured["accuracy"].between(0, 1).all()
    compiled = by_images[by_images["stage"] == "compilation"]
    assert compiled["backend"].tolist() == ["neural_tangents"]


def test_neural_tangents_and_ours_learn_the_same(by_images: pd.DataFrame) -> None:
    """The same kernel gives the same training loss after as many steps."""
    ntk = by_images[(by_images["kernel"] == "ntk") & (by_images["stage"] == "gram") & by_images["measured"]]
    losses = ntk.pivot(index="images", columns="backend", values="train_loss")
    assert np.allclose(losses["neural_tangents"], losses["torch"], rtol=1e-4)
    assert ntk.loc[(ntk["images"] == 8) & (ntk["backend"] == "torch"), "accuracy"].item() > 0.8


def test_operations_grow_with_the_square_of_the_images(by_images: pd.DataFrame) -> None:
    laws = by_images[~by_images["measured"] & (by_images["stage"] == "gram")].set_index(["kernel", "backend"])
    assert laws.loc[("ntk", "neural_tangents"), "operations_exponent"] == pytest.approx(2.0)
    # half of a symmetric matrix: n (n + 1) / 2
    assert 1.7 < laws.loc[("ntk", "torch"), "operations_exponent"] < 2.0  # type: ignore[arg-type, operator]
    assert (laws["images"] == 1000).all()


def test_operations_grow_with_the_fourth_power_of_the_side(by_side: pd.DataFrame) -> None:
    laws = by_side[~by_side["measured"] & (by_side["stage"] == "gram") & (by_side["kernel"] == "ntk")]
    assert laws["operations_exponent"].item() == pytest.approx(4.0, abs=0.1)
    assert laws["days"].item() == pytest.approx(laws["seconds"].item() * 4 / 86400)


def test_laws_recover_what_the_times_were_made_of() -> None:
    sizes = np.array([4, 8, 16, 32])
    rows = pd.DataFrame({"kernel": "ntk", "backend": "native", "stage": "gram", "images": sizes})
    rows = rows.assign(seconds=2e-3 * sizes**2, core_seconds=4e-3 * sizes**2, operations=1e6 * sizes**2)
    end = with_laws(rows, "images", 1e6).query("not measured").iloc[0]
    assert end["seconds"] == pytest.approx(2e9)
    assert end["low"] == pytest.approx(end["high"])
    assert end["exponent"] == pytest.approx(2.0)
    disturbed = rows.assign(seconds=rows["seconds"] * [3.0, 1.0, 9.0, 2.0])
    again = with_laws(disturbed, "images", 1e6).query("not measured").iloc[0]
    assert again["seconds"] == pytest.approx(2e9)


def test_entries_are_compared_with_another_table() -> None:
    def table(seconds: float) -> pd.DataFrame:
        row = {"kernel": "ntk", "backend": "native", "stage": "gram", "measured": True, "images": 10}
        return pd.DataFrame([{**row, "core_seconds": seconds}])

    (ratios,) = entry_ratios(table(50.0), {"other": table(2.0)})
    assert ratios["ratio"].item() == pytest.approx(25.0)
    assert entry_ratios(table(1.0), {}) == []


def test_finished_cells_are_not_measured_again(tmp_path: Path) -> None:
    calls = []

    def rows(kernel: Any, backend: Any) -> Any:
        calls.append(kernel)
        if kernel == "nngp" and len(calls) == 2:
            raise KeyboardInterrupt
        return [{"value": len(calls)}]

    cells = [("ntk", "native"), ("nngp", "native")]
    with pytest.raises(KeyboardInterrupt):
        collected(WorkFolder(tmp_path), cells, rows)
    table = collected(WorkFolder(tmp_path), cells, rows)
    assert calls == ["ntk", "nngp", "nngp"]
    assert table["value"].tolist() == [1, 3]
    collected(WorkFolder(tmp_path / "another job's"), cells[:1], rows)
    assert len(calls) == 4


def test_smaller_training_sets_are_parts_of_larger_ones() -> None:
    images = prepared(striped(3), train=10, test=5, side=8, seed=0)
    assert images.y_train.tolist() == [0, 1, 2] * 3 + [0]
    assert prepared(striped(3), train=10, test=5, side=4, seed=0).x_train.shape == (10, 4, 4, 3)
    assert prepared(striped(3), train=10, test=5, side=20, seed=0).x_test.shape == (5, 20, 20, 3)
    few = images.first(4, 2)
    assert np.array_equal(few.x_train, images.x_train[:4])
    assert len(few.x_test) == len(few.y_test) == 2


def test_incomplete_batches_are_filled_up() -> None:
    x = prepared(striped(2), train=5, test=3, side=4, seed=0)
    network = (Convolution(), Relu(), AveragePool(), GlobalAveragePool(), Dense())
    theirs = NeuralTangents(network, "ntk", (4, 4, 3), batch=2)
    ours = Ours(network, "ntk", (4, 4, 3), "torch", 1)
    assert np.allclose(theirs.kernel(x.x_test, x.x_train), ours.kernel(x.x_test, x.x_train), rtol=1e-4)
    assert theirs.operations(3, 5, False) == 6 * theirs.batch_operations > 0


def test_the_best_of_several_is_taken() -> None:
    _, spent = timed(lambda: time.sleep(0.06), Timing(repeats=5, seconds=10.0))
    assert spent.repeats == 5
    assert spent.seconds == pytest.approx(0.06, abs=0.05)
    _, short = timed(lambda: time.sleep(0.001), Timing(repeats=5, seconds=10.0))
    assert short.repeats > 5
    _, once = timed(lambda: sum(range(100000)), Timing(repeats=5, seconds=0.0))
    assert once.repeats == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architecture": {"name": "lenet"}}, r"settings.architecture.name: 'lenet' .*\(allowed: myrtle, resnet50\)"),
        (
            {"architecture": {"name": "myrtle", "depth": 6, "channels": 4}},
            r"architecture.depth: .* \(allowed: 5, 7, 10\)",
        ),
        ({"architecture": {**COMMON["architecture"], "stem": "cifar"}}, "settings.architecture: unknown setting stem"),
        ({"kernels": ["cosine"]}, r"settings.kernels\[0\]: 'cosine' is not known here"),
        ({"backends": ["abacus"]}, r"settings.backends\[0\]: 'abacus' is not known here \(allowed: native, neural"),
        ({"backends": ["native"]}, "settings.test_images: there is nothing for native"),
        ({"train_sizes": {"torch": [2], "finite": [2]}}, "settings.train_sizes: there is nothing for neural_tangents"),
        ({"integration": {"steps": 200, "step_share": 1.5}}, "settings.integration.step_share: expected `float` <= 1"),
        ({"loss": "squared"}, "settings.loss: 'squared' is not known here"),
    ],
)
def test_a_wrong_setting_is_said_with_file_and_key(change: Any, message: str) -> None:
    with pytest.raises(InvalidConfig, match=f"^catalogue.yaml at .*{message}"):
        read(AgainstImages, {**BY_IMAGES, **change})


def test_a_finite_resnet_has_its_share_of_the_width() -> None:
    assert ResNet50(width_factor=0.25).network(7) == resnet50(width=16, outputs=7)


def test_operations_of_a_network_that_can_be_counted_by_hand() -> None:
    """One convolution at 4 x 4: 6 of the pixels, 2 (2 * 2 + 1) + 1 of the filter, 33 of the ReLU, 2 of the mean."""
    network = (Convolution(), Relu(), GlobalAveragePool(), Dense())
    assert covariance_operations(network, 4, 4, 3, tangent=True) == 256 * (6 + 11 + 33 + 2)


@pytest.mark.parametrize("name", ["survey_fig2_5", "survey_fig2_6", "survey_fig2_8"])
def test_figures_are_drawn_with_the_printed_number(name: str, by_images: pd.DataFrame, by_side: pd.DataFrame) -> None:
    artifact = load_catalogue(Paths(find_root())).artifact(name)
    figure = figure_function(artifact)(by_side if name.endswith("8") else by_images, artifact)
    axes = figure.get_axes()
    assert len(axes) == 4
    assert all(axis.get_lines() for axis in axes)


def test_claims_measure_what_they_say(by_images: pd.DataFrame) -> None:
    """On a made-up table whose answers are known."""
    artifact = load_catalogue(Paths(find_root())).artifact("survey_fig2_5")
    measures = {claim.name: claim.measure for claim in artifact.claims}
    sizes = np.array([4, 8, 16])
    rows = []
    for kernel, backend, factor in (
        ("ntk", "neural_tangents", 1.0),
        ("nngp", "neural_tangents", 0.7),
        ("ntk", "native", 0.01),
    ):
        for stage, power in (("gram", 2.0), ("integration", 0.0)):
            seconds = factor * sizes**power * (1.0 if stage == "gram" else 1e-3)
            rows.append(
                pd.DataFrame({"kernel": kernel, "backend": backend, "stage": stage, "images": sizes}).assign(
                    seconds=seconds, core_seconds=seconds, operations=sizes**2.0
                )
            )
    table = with_laws(pd.concat(rows, ignore_index=True), "images", 1e6)
    expected = {
        "survey_fig2_5_quadratic": 2.0,
        "survey_fig2_5_quadratic_native": 2.0,
        "survey_fig2_5_gram_dominates": 256000.0,
        "survey_fig2_5_nngp_like_ntk": 0.7,
        "survey_fig2_5_operations": 0.0,
        "survey_fig2_5_native_faster": 0.01,
    }
    assert set(measures) == set(expected)
    for name, value in expected.items():
        assert evaluate(measures[name], table) == pytest.approx([value], abs=1e-9), name
