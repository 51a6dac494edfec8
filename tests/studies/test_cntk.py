"""The CNTK study: what its artifacts measure, on a few tiny images."""

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pytest

from tangentbench.claims import evaluate
from tangentbench.datasets import Dataset
from tangentbench.datasets.choice import ImageChoice, UnfitImages, average_down, channel_moments, select
from tangentbench.errors import InvalidConfig, UnknownName
from tangentbench.identity import WorkFolder
from tangentbench.kernels import cntk
from tangentbench.networks.ntk_cnn_spec import NtkCnnSpec
from tangentbench.paths import Paths, find_root
from tangentbench.studies.cntk.cells import Cell, Table1Cells
from tangentbench.studies.cntk.costs import exact_kernel
from tangentbench.studies.cntk.measure import accuracy as accuracy_module
from tangentbench.studies.cntk.measure.accuracy import coded, decoded
from tangentbench.studies.cntk.measure.convergence import convergence, limit_kernel
from tangentbench.studies.cntk.measure.table1 import networks_and_kernels, vanilla_kernel_on_all_images
from tangentbench.studies.cntk.measure.table2 import exact_against_random_features
from tangentbench.studies.cntk.plans import kernel_plan
from tangentbench.studies.cntk.settings import Convergence, Fit, Table1, Table2, VanillaFull
from tangentbench.studies.registry import Context, figure_function
from tangentbench.studies.settings import Settings, read_settings
from tangentbench.suite.catalogue import load_catalogue
from tangentbench.suite.costs import estimate, load_unit_costs

S = TypeVar("S", bound=Settings)
LAYERS: dict[str, Any] = {"filter_size": 3, "gap_trains_first_and_last": False, "vanilla_trains_first_and_last": True}
KERNEL = {
    "images": {"side": 4, "pixels": "standardised", "subset": "balanced"},
    "fit": {"ridge": 0.0, "label_offset": -0.1},
}
COLUMNS1 = ("cnn_v", "cntk_v", "cntk_v_2k", "cnn_gap", "cntk_gap", "cntk_gap_2k")
TABLE1: dict[str, Any] = {
    **KERNEL,
    "layers": LAYERS,
    "cells": ["cnn_v 3, cntk_v 3 4, cntk_v_2k 3 4", "cnn_gap 3, cntk_gap 3, cntk_gap_2k 3"],
    "train_images": dict.fromkeys(COLUMNS1, 24) | {"cntk_v_2k": 12, "cntk_gap_2k": 12},
    "test_images": dict.fromkeys(COLUMNS1, 16),
    "subsets": {"cntk_v_2k": 3, "cntk_gap_2k": 2},
    "tiles": {"cntk_v": 512, "cntk_v_2k": 512, "cntk_gap": 128, "cntk_gap_2k": 128},
    "networks": {
        "channels": [8],
        "learning_rates": [0.5, 1.0],
        "kappas": [0.5],
        "epochs": 3,
        "batch_size": 8,
        "loss": "squared",
        "runs": 2,
        "chosen_on": "test",
    },
}
VANILLA: dict[str, Any] = {
    **KERNEL,
    "layers": {"filter_size": 3, "vanilla_trains_first_and_last": True},
    "depths": [3, 4],
    "train_images": 24,
    "test_images": 16,
    "tile": 512,
}
TABLE2: dict[str, Any] = {
    **KERNEL,
    "layers": LAYERS,
    "cells": ["rf_v 3, cntk_v 3, rf_gap 3, cntk_gap 3"],
    "channels": 8,
    "draws": 3,
    "features_of": "trained_layers",
    "train_images": {"vanilla": {"compared": 12, "all": 24}, "gap": {"compared": 12, "all": 12}},
    "test_images": {"vanilla": 16, "gap": 16},
    "feature_gib": 0.001,
    "tiles": {"cntk_v": 512, "cntk_gap": 128},
}
CONVERGENCE: dict[str, Any] = {
    "depths": [3],
    "filter_size": 3,
    "gap_trains_first_and_last": False,
    "inputs": "unit_norm",
    "image_side": 4,
    "images": 6,
    "widths": [16, 256],
    "runs": 8,
    "trained": {
        "depth": 3,
        "widths": [16, 256],
        "runs": 3,
        "train_images": 4,
        "test_images": 4,
        "kappa": 0.1,
        "learning_rate": 0.5,
        "steps": 100,
        "loss": "squared",
    },
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
        images = 0.5 + 0.2 * pattern[..., None] + 0.1 * rng.normal(size=(count, 8, 8, 3))
        return images.astype(np.float32), labels.astype(np.int64)

    names = tuple(f"direction {one}" for one in range(classes))
    return Dataset("striped", *draw(60), *draw(16), classes=names)


@pytest.fixture(scope="module")
def four_classes() -> Context:
    return Context(seed=0, datasets={"striped": striped(4)})


@pytest.fixture(scope="module")
def catalogue() -> Any:
    return load_catalogue(Paths(find_root()))


@pytest.fixture(scope="module")
def table1(four_classes: Context) -> pd.DataFrame:
    return networks_and_kernels(four_classes, read(Table1, TABLE1))


@pytest.fixture(scope="module")
def table2() -> pd.DataFrame:
    return exact_against_random_features(Context(seed=0, datasets={"striped": striped(2)}), read(Table2, TABLE2))


def test_every_cell_and_seed_of_table_1_is_there(table1: pd.DataFrame) -> None:
    counts = table1.groupby(["column", "depth"]).size().to_dict()
    runs = {"cnn_v": 2, "cntk_v": 1, "cntk_v_2k": 3, "cnn_gap": 2, "cntk_gap": 1, "cntk_gap_2k": 2}
    assert counts == {**{(name, 3): count for name, count in runs.items()}, ("cntk_v", 4): 1, ("cntk_v_2k", 4): 3}
    assert table1["value"].between(0, 100).all()


def test_exact_kernels_learn_what_is_easy(table1: pd.DataFrame) -> None:
    kernels = table1[table1["column"].isin(["cntk_v", "cntk_gap"])]
    assert (kernels["value"] > 60).all()


def test_accuracy_is_that_of_the_plain_formula(table1: pd.DataFrame, four_classes: Context) -> None:
    """f(x) = k(x)^T H^-1 Y with the labels coded -0.1 1 + e_c (section 5.1), written out in double precision."""
    images = select(four_classes.dataset, ImageChoice(24, 16, 4, "standardised", "balanced"), seed=0)
    x_train, x_test = images.x_train.astype(np.float64), images.x_test.astype(np.float64)
    coded = np.eye(4)[images.y_train] - 0.1
    gram = cntk(x_train, depth=4, pooling="flatten")
    scores = cntk(x_test, x_train, depth=4, pooling="flatten") @ np.linalg.solve(gram, coded)
    expected = 100 * np.mean(scores.argmax(axis=1) == images.y_test)
    assert evaluate({"where": {"column": "cntk_v", "depth": 4}}, table1) == pytest.approx([expected])


def test_best_and_last_epoch_of_networks(table1: pd.DataFrame) -> None:
    networks = table1[table1["column"].str.startswith("cnn")]
    assert (networks["value"] >= networks["last_epoch"]).all()
    assert networks["step"].isin([0.5, 1.0]).all()


def test_killed_table_goes_on_without_computing_again(
    four_classes: Context, table1: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = read(Table1, {**TABLE1, "cells": ["cntk_v_2k 3 4"]})
    context = Context(seed=0, datasets=four_classes.datasets, work=WorkFolder(tmp_path))
    whole = accuracy_module.accuracy_of
    calls = 0

    def killed(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return whole(*arguments, **options)

    monkeypatch.setattr(accuracy_module, "accuracy_of", killed)
    with pytest.raises(KeyboardInterrupt):
        networks_and_kernels(context, settings)
    monkeypatch.undo()
    assert len(list(tmp_path.glob("*/accuracy.json"))) == 2
    assert not list(tmp_path.glob("*/*/tiles"))

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        return cntk(*arguments, **options)

    calls = 0
    monkeypatch.setattr("tangentbench.gram.by_settings.cntk", counted)
    resumed = networks_and_kernels(replace(context, work=WorkFolder(tmp_path)), settings)
    assert calls == 4 * 2
    expected = table1[table1["column"] == "cntk_v_2k"].reset_index(drop=True)
    pd.testing.assert_frame_equal(resumed, expected[resumed.columns])


def test_vanilla_on_all_images_is_the_column_of_table_1(four_classes: Context, table1: pd.DataFrame) -> None:
    alone = vanilla_kernel_on_all_images(four_classes, read(VanillaFull, VANILLA))
    column = table1[table1["column"] == "cntk_v"]
    assert alone["value"].tolist() == column["value"].tolist()


def test_table_2_has_draws_and_their_median(table2: pd.DataFrame) -> None:
    draws = evaluate({"where": {"column": "rf_v", "depth": 3, "quantity": "accuracy"}}, table2)
    median = evaluate({"where": {"column": "rf_v", "depth": 3, "quantity": "median accuracy"}}, table2)
    assert len(draws) == 3
    assert median == [np.median(draws)]


def test_table_2_compares_kernels_on_the_same_images(table2: pd.DataFrame) -> None:
    compared = table2[table2["images"] == "compared"]
    assert set(compared["train_images"]) == {12}
    exact = table2[(table2["column"] == "cntk_v") & (table2["images"] == "all")]
    assert exact["train_images"].tolist() == [24]


def test_sign_coding_of_two_classes() -> None:
    fit = Fit(ridge=0.0, label_offset=-0.1, coding="sign")
    assert coded(fit, np.array([0, 1]), 2).tolist() == [[-1.0], [1.0]]
    assert decoded(fit, np.array([[-0.3], [0.2]])).tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["fc", "cnn_v", "cnn_gap"])
def test_networks_near_their_kernel_as_they_widen(four_classes: Context, kind: Any) -> None:
    table = convergence(four_classes, read(Convergence, {**CONVERGENCE, "architectures": [kind]}))
    means = table.groupby(["quantity", "width"])["value"].mean()
    assert means["kernel error", 256] < means["kernel error", 16] / 2
    assert means["prediction error", 256] < means["prediction error", 16]


def test_limit_kernel_is_symmetric_and_consistent(four_classes: Context) -> None:
    images = four_classes.dataset.x_train[:5]
    for kind in ("fc", "cnn_v", "cnn_gap"):
        network = NtkCnnSpec(kind, 3, 16, (8, 8, 3))
        square = limit_kernel(network, images, None)
        np.testing.assert_allclose(square, limit_kernel(network, images, images), rtol=1e-9)


def test_subsets_differ_by_number_and_balance_classes(four_classes: Context) -> None:
    first, again, other = (
        select(four_classes.dataset, ImageChoice(20, 8, 8, "standardised", "balanced", number), seed=0)
        for number in (0, 0, 1)
    )
    assert np.bincount(first.y_train).tolist() == [5] * 4
    np.testing.assert_array_equal(first.x_train, again.x_train)
    assert not np.array_equal(first.x_train, other.x_train)
    np.testing.assert_array_equal(first.x_test, other.x_test)


def test_pixels_are_standardised_over_all_training_images(four_classes: Context) -> None:
    data = four_classes.dataset
    mean, spread = channel_moments(data.x_train)
    np.testing.assert_allclose(mean, data.x_train.mean(axis=(0, 1, 2)), rtol=1e-5)
    np.testing.assert_allclose(spread, data.x_train.std(axis=(0, 1, 2)), rtol=1e-4)
    np.testing.assert_array_equal(average_down(data.x_train, 8), data.x_train)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"train": 18}, "multiple"), ({"train": 400}, "has 60"), ({"side": 3}, "divisor"), ({"pixels": "grey"}, "pixels")],
)
def test_images_that_cannot_be_had(four_classes: Context, change: Any, message: str) -> None:
    options = {"train": 20, "test": 8, "side": 8, "pixels": "standardised", "subset": "balanced"}
    with pytest.raises((UnfitImages, UnknownName), match=message):
        select(four_classes.dataset, ImageChoice(**{**options, **change}), seed=0)


def test_cells_are_columns_and_depths() -> None:
    cells = Table1Cells.parse("cntk_v 3 4, cnn_gap 6")
    assert [(cell.column.name, cell.depth) for cell in cells] == [("cntk_v", 3), ("cntk_v", 4), ("cnn_gap", 6)]
    assert [(cell.column.method, cell.column.pooling) for cell in cells[1:]] == [
        ("kernel", "flatten"),
        ("network", "gap"),
    ]


@pytest.mark.parametrize(
    ("record", "raw", "change", "message"),
    [
        (Table1, TABLE1, {"cells": ["cntk_w 3"]}, r"settings.cells\[0\]: unknown column 'cntk_w': did you mean cntk_v"),
        (Table1, TABLE1, {"cells": ["cntk_v three"]}, r"settings.cells\[0\]: 'cntk_v three' .* like 'cntk_v 3 4 6'"),
        (Table1, TABLE1, {"cells": ["cntk_v 1"]}, r"settings.cells\[0\]: 'cntk_v 1' is not .* depths, from 2 on"),
        (Table2, TABLE2, {"cells": ["cnn_v 3"]}, r"settings.cells\[0\]: unknown column 'cnn_v'"),
        (
            Table1,
            TABLE1,
            {"train_images": {"cntk_v": 24}},
            "settings.train_images: there is no number for cnn_gap, cnn_v",
        ),
        (Table1, TABLE1, {"tiles": {"cntk_v": 9}}, "settings.tiles: there is no number for cntk_gap, cntk_gap_2k"),
        (Table1, TABLE1, {"layers": {**LAYERS, "filter_size": 4}}, "settings.layers.filter_size: a filter of side 4"),
        (Table2, TABLE2, {"train_images": {"vanilla": {"compared": 4}}}, "settings.train_images: .* no number for gap"),
        (Table2, TABLE2, {"features_of": "last_layer"}, "settings.features_of: 'last_layer' is not known here"),
        (Table2, TABLE2, {"fit": {**KERNEL["fit"], "coding": "two_hot"}}, r"fit.coding: .*\(allowed: one_hot, sign\)"),  # type: ignore[dict-item]
        (VanillaFull, VANILLA, {"ridge": 0.0}, "settings: unknown setting ridge"),
        (Convergence, CONVERGENCE, {"architectures": ["rnn"]}, r"settings.architectures\[0\]: 'rnn' is not known here"),
    ],
)
def test_a_wrong_setting_is_said_with_file_and_key(record: Any, raw: Any, change: Any, message: str) -> None:
    with pytest.raises(InvalidConfig, match=f"^catalogue.yaml at .*{message}"):
        read(record, {**raw, **change})


@pytest.mark.parametrize("name", ["cntk_table1", "cntk_table2"])
def test_tables_are_drawn(
    catalogue: Any, table1: pd.DataFrame, table2: pd.DataFrame, name: str, tmp_path: Path
) -> None:
    artifact = catalogue.artifact(name)
    drawn = figure_function(artifact)({"cntk_table1": table1, "cntk_table2": table2}[name], artifact)
    assert len(drawn.axes) == {"cntk_table1": 6, "cntk_table2": 4}[name]
    assert all(axis.lines for axis in drawn.axes)
    drawn.savefig(tmp_path / "figure.png")


def test_work_grows_as_entries_positions_and_layers() -> None:
    settings = read(Table1, TABLE1)
    images = ImageChoice(100, 50, 32, "standardised", "balanced")

    def amount(column: str, depth: int, unit: str) -> float:
        plan = kernel_plan(settings.layers, Cell(Table1Cells.columns[column], depth), images, 512)
        return exact_kernel(plan).units[unit]

    small, deep = (amount("cntk_gap", depth, "cntk_gap_gstep") for depth in (3, 5))
    assert deep == 2 * small
    assert small == pytest.approx(1024 * amount("cntk_v", 3, "cntk_flatten_gstep"))


def test_a_network_counts_its_own_operations() -> None:
    """Depth 3 on 4 x 4 images: two convolutions of 3 x 3 with 3 and 8 channels below, 8 above."""
    network = NtkCnnSpec("cnn_gap", 3, 8, (4, 4, 3), train_first_last=False)
    assert network.forward_operations() == 2 * 16 * 9 * 8 * (3 + 8)
    assert network.trained_parameters == 9 * 8 * 8
    assert NtkCnnSpec("fc", 3, 8, (4, 4, 3)).trained_parameters == 48 * 8 + 8 * 8 + 8


def test_tiles_that_jobs_of_their_own_compute_stay_on_disk(catalogue: Any) -> None:
    """CNTK-V-2K at scale cpu: five subsets per depth, whose matrices are all kept."""
    artifact = catalogue.artifact("cntk_table1")
    paths = Paths(find_root())
    subset = (2000**2 / 2 + 2000 * 10000) * 4 / 2**30
    full = (10000**2 / 2 + 10000 * 10000) * 4 / 2**30
    pooled = (2000**2 / 2 + 2000 * 500) * 4 / 2**30
    found = estimate(artifact, "cpu", load_unit_costs(paths), paths).disk_gib
    assert found == pytest.approx(25 * subset + 5 * full + 3 * pooled)
