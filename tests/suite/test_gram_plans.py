"""Planned Gram matrices: plans from the configuration, tiles computed anywhere in any order, tables that take them."""

from __future__ import annotations

import random
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from small_project import ROOT

from tangentbench.config import SCALES
from tangentbench.datasets import Dataset, load_dataset, save_dataset
from tangentbench.datasets.choice import ImageChoice
from tangentbench.errors import DataMissing, InvalidConfig, StoreMismatch, TangentbenchError, UnknownName
from tangentbench.gram import Gram, by_settings, read_certificate, subset, tile_file
from tangentbench.gram import steps as gram_jobs
from tangentbench.gram.by_settings import named_kernel
from tangentbench.gram.grid import tile_key, tile_name
from tangentbench.gram.identity import description
from tangentbench.gram.plans import TEST, TRAIN, GramPlan, KernelPlan
from tangentbench.kernels import cntk, layered_kernel, myrtle, ntk
from tangentbench.paths import Paths
from tangentbench.studies.cntk.measure import accuracy
from tangentbench.studies.cntk.measure.table1 import vanilla_kernel_on_all_images
from tangentbench.studies.cntk.plans import vanilla_plans
from tangentbench.studies.cntk.settings import Fit, Layers, Preparation, VanillaFull
from tangentbench.studies.gram_work import kernel_units, tile_work
from tangentbench.studies.registry import Context
from tangentbench.suite.catalogue import load_catalogue
from tangentbench.suite.gram_plans import Grams, declared_plans
from tangentbench.suite.steps import gram_store_of

HOUSE = Paths(ROOT)
SETTINGS: dict[str, Any] = {"name": "cntk", "depth": 3, "pooling": "flatten"}
IMAGES = ImageChoice(20, 10, 4, "standardised", "random")
PLAN = GramPlan("mine", "noise", 1, KernelPlan("cntk", "mine", IMAGES, SETTINGS, tile=8))


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A checkout with nothing in it but a data set of noise."""
    rng = np.random.default_rng(0)
    sets = [(rng.random((count, 8, 8, 3), np.float32), np.arange(count) % 2) for count in (40, 10)]
    dataset = Dataset("noise", *sets[0], *sets[1], classes=("even", "odd"))
    save_dataset(dataset, Paths(tmp_path).dataset("noise"), Paths(tmp_path).dataset_provenance("noise"))
    return Paths(tmp_path)


def computed(paths: Paths, plan: GramPlan = PLAN, order: int | None = None) -> dict[str, Gram]:
    gram_jobs.prepare_inputs(paths, plan, "quick", seed=0)
    stores = {}
    for matrix in plan.plan.matrices:
        gram_jobs.create_store(paths, plan, matrix, "quick")
        tiles = plan.tiles(matrix)
        if order is not None:
            random.Random(order).shuffle(tiles)
        for tile in tiles:
            gram_jobs.compute_tile(paths, plan, matrix, tile, "quick", threads=1)
        stores[matrix] = Gram.open(paths.gram("quick", plan.inputs, plan.key) / matrix)
    return stores


def test_tiles_are_named_by_the_plan_alone(paths: Paths) -> None:
    for matrix, store in computed(paths).items():
        assert PLAN.tiles(matrix) == [store.tile_path(key).stem for key in store.keys]
        assert store.missing_tiles() == []
    assert tile_key(tile_name((3, 12))) == (3, 12)


def test_any_order_gives_the_same_bytes_and_the_right_matrix(paths: Paths, tmp_path: Path) -> None:
    there = computed(paths)
    images = {matrix: np.load(paths.gram_inputs("quick", PLAN.inputs, matrix)) for matrix in (TRAIN, TEST)}
    np.testing.assert_array_equal(there[TRAIN].to_array(), cntk(images[TRAIN], depth=3, pooling="flatten"), strict=True)
    np.testing.assert_array_equal(there[TEST].to_array(), cntk(images[TEST], images[TRAIN], depth=3, pooling="flatten"))
    before = {file: file.read_bytes() for file in tmp_path.rglob("tiles/*.npy")}
    for file in before:
        file.unlink()
    computed(paths, order=1)
    assert before == {file: file.read_bytes() for file in tmp_path.rglob("tiles/*.npy")}


def test_the_certificate_checks_every_tile_and_mends_the_damaged_one(paths: Paths) -> None:
    store = computed(paths)[TRAIN]
    victim = store.tile_path((1, 0))
    right = victim.read_bytes()
    others = {key: store.tile_path(key).stat().st_mtime_ns for key in store.keys if key != (1, 0)}
    victim.write_bytes(right[:200] + bytes([right[200] ^ 1]) + right[201:])
    with pytest.warns(UserWarning, match="00001-00000.npy.*recomputed"):
        gram_jobs.seal(paths, PLAN, TRAIN, "quick", threads=1)
    assert victim.read_bytes() == right
    assert others == {key: store.tile_path(key).stat().st_mtime_ns for key in others}
    certificate = read_certificate(store)
    assert certificate is not None
    assert certificate["second_backend"]["relative_to_largest_entry"] < 1e-5
    assert certificate["spectrum"]["smallest_eigenvalue"] > 0


def test_a_tile_reads_and_checks_only_the_images_it_needs(paths: Paths) -> None:
    gram_jobs.prepare_inputs(paths, PLAN, "quick", seed=0)
    gram_jobs.create_store(paths, PLAN, TRAIN, "quick")
    file = paths.gram_inputs("quick", PLAN.inputs, TRAIN)
    images = np.load(file)
    images[-1] += 1
    np.save(file, images)
    gram_jobs.compute_tile(paths, PLAN, TRAIN, "00001-00000", "quick", threads=1)
    with pytest.raises(StoreMismatch, match="input 16 to 19"):
        gram_jobs.compute_tile(paths, PLAN, TRAIN, "00002-00000", "quick", threads=1)
    with pytest.raises(StoreMismatch, match="input 16 to 19"):
        gram_jobs.seal(paths, PLAN, TRAIN, "quick", threads=1)


def test_missing_images_and_wrong_settings_are_said_at_once(paths: Paths) -> None:
    with pytest.raises(DataMissing, match="ask Snakemake"):
        gram_jobs.create_store(paths, PLAN, TRAIN, "quick")
    gram_jobs.prepare_inputs(paths, PLAN, "quick", seed=0)
    for settings, message in (
        ({"name": "cntk", "depht": 3}, "no setting depht"),
        ({"name": "ckn"}, "did you mean cntk"),
        ({"name": "cntk", "threads": 3}, "no setting threads"),
    ):
        wrong = replace(PLAN, plan=replace(PLAN.plan, kernel=settings))
        with pytest.raises(TangentbenchError, match=message):
            gram_jobs.create_store(paths, wrong, TRAIN, "quick")


def test_without_test_images_there_is_one_matrix(paths: Paths) -> None:
    alone = replace(PLAN, plan=replace(PLAN.plan, images=replace(PLAN.plan.images, test=0)))
    assert list(computed(paths, alone)) == [TRAIN]


def test_a_fully_connected_kernel_sees_vectors() -> None:
    images = np.random.default_rng(0).normal(size=(4, 2, 2, 3))
    values = named_kernel({"name": "ntk", "depth": 3})(images, None)
    np.testing.assert_allclose(values, ntk(images.reshape(4, -1), depth=3))


def test_a_table_takes_the_workflows_matrices(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table from tiles that other jobs computed is the one a single job computes, also after a tile was damaged."""
    settings = VanillaFull(
        depths=(3, 4),
        layers=Layers(filter_size=3, vanilla_trains_first_and_last=True),
        images=Preparation(side=4, pixels="standardised", subset="balanced"),
        fit=Fit(ridge=0.0, label_offset=-0.1),
        train_images=20,
        test_images=10,
        tile=7,
    )
    datasets = {"noise": load_dataset(paths.dataset("noise"))}
    plans = [GramPlan("mine", "noise", 1, plan) for plan in vanilla_plans(settings)]
    for plan in plans:
        for matrix, store in computed(paths, plan, order=2).items():
            if matrix == TEST:
                store.tile_path((0, 1)).write_bytes(b"not a tile")
    grams = {plan.name: gram_store_of(paths, plan, "quick") for plan in plans}
    with warnings.catch_warnings(), monkeypatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(accuracy, "select", None)  # the images were prepared once and are not prepared again
        tiled = vanilla_kernel_on_all_images(Context(0, datasets, grams=grams), settings)
    alone = vanilla_kernel_on_all_images(Context(0, datasets), msgspec.structs.replace(settings, tile=512))
    # the residual of the solution is rounding, which depends on the cuts
    pd.testing.assert_frame_equal(*(table.drop(columns="residual") for table in (tiled, alone)), check_exact=True)  # type: ignore[arg-type, misc]
    assert all(any(store.folder.rglob("tiles/*.npy")) for store in grams.values())


def test_every_planned_matrix_of_the_house_can_be_priced_and_has_a_name_of_its_own() -> None:
    artifacts = load_catalogue(HOUSE)
    for scale in SCALES:
        for owner, plans in Grams.at(HOUSE, artifacts, scale).plans.items():
            for name, plan in plans.items():
                assert (plan.owner, plan.name) == (owner, name)
                named_kernel(plan.plan.kernel)
                assert all(amount > 0 for amount in tile_work(plan).units.values())
                assert kernel_units(plan.plan, 4.0) == {
                    unit: pytest.approx(4 * amount) for unit, amount in kernel_units(plan.plan, 1.0).items()
                }


def test_vanilla_full_takes_its_matrices_tile_by_tile() -> None:
    plans = Grams.at(HOUSE, load_catalogue(HOUSE), "cpu").of("cntk_vanilla_full")
    assert [len(plan.tiles(TRAIN)) + len(plan.tiles(TEST)) for plan in plans.values()] == [450] * 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("pixels: standardised|pixels: grey", "unknown way to prepare pixels 'grey'"),
        ("tile: 1000 #|tile: 0 #", "less than the minimum"),
        ("name: cntk|name: cnn", "'cnn' is not one of"),
        ("tile: 128|threads: 2", "'tile' is missing for scale cpu"),
        ("train: 100, test: 50|test: 50", "missing 1 required positional argument: 'train'"),
    ],
)
def test_a_bad_declaration_is_named(tmp_path: Path, change: str, message: str) -> None:
    old, new = change.split("|")
    text = HOUSE.grams.read_text("utf-8")
    assert old in text
    (tmp_path / "config").mkdir()
    (tmp_path / "config/schemas").symlink_to(HOUSE.schemas)
    Paths(tmp_path).grams.write_text(text.replace(old, new, 1))
    with pytest.raises(InvalidConfig, match=message):
        for scale in SCALES:
            declared_plans(Paths(tmp_path), scale)


def test_an_unknown_matrix_is_named() -> None:
    grams = Grams.at(HOUSE, [], "quick")
    with pytest.raises(UnknownName, match="did you mean vanilla"):
        grams.of("vanila")
    with pytest.raises(UnknownName, match="matrix of vanilla"):
        grams.plan("vanilla", "nothing")
    with pytest.raises(UnknownName, match="choice of images"):
        grams.with_inputs("nothing")


def named(kernel: dict[str, Any], owner: str = "mine", **images: int) -> GramPlan:
    choice = replace(IMAGES, **images)  # type: ignore[arg-type]
    return GramPlan(owner, "noise", 1, KernelPlan("one", "one", choice, kernel, tile=8))


def test_a_matrix_is_named_by_what_it_is() -> None:
    """Abbreviated or spelled out, asked for by one or by another: one place. Another network: another place."""
    plan = named(SETTINGS)
    spelled = {**SETTINGS, "filter": 3, "kind": "ntk", "train_first_last": True}
    assert named(spelled, "another").key == plan.key
    for change in ({"pooling": "gap"}, {"depth": 4}, {"filter": 5}, {"kind": "nngp"}, {"train_first_last": False}):
        assert named({**SETTINGS, **change}).key != plan.key
    layers = [{"layer": "Convolution"}, {"layer": "Relu"}, {"layer": "Flatten"}, {"layer": "Dense"}]
    wide = [{"layer": "Convolution", "channels": 999}, *layers[1:]]
    assert named({"name": "layers", "network": layers}).key == named({"name": "layers", "network": wide}).key
    pooled = [*layers[:2], {"layer": "GlobalAveragePool"}, layers[3]]
    assert named({"name": "layers", "network": pooled}).key != named({"name": "layers", "network": layers}).key
    assert named({"name": "layers", "network": description(myrtle(7))}).key == named({"name": "myrtle", "depth": 7}).key


def test_two_owners_share_one_matrix() -> None:
    first, second = named(SETTINGS, "first"), named({**SETTINGS, "filter": 3}, "second")
    finer = replace(second, threads=2, plan=replace(second.plan, tile=4))
    grams = Grams({"first": {"one": first}, "second": {"one": finer}})
    shared = grams.stored(first.inputs, first.key)
    assert (shared.tile, shared.threads) == (4, 2)
    with pytest.raises(UnknownName):
        grams.stored(first.inputs, "nothing")


def test_any_network_can_be_planned(paths: Paths) -> None:
    plan = named({"name": "myrtle", "depth": 5}, train=10, test=6)
    stores = computed(paths, plan)
    images = np.load(paths.gram_inputs("quick", plan.inputs, TRAIN))
    np.testing.assert_allclose(stores[TRAIN].to_array(), layered_kernel(images, network=myrtle(5)), rtol=1e-6)
    gram_jobs.seal(paths, plan, TRAIN, "quick", threads=1)
    assert all(amount > 0 for amount in tile_work(plan).units.values())
    with pytest.raises(TangentbenchError, match="it has window, stride, padded"):
        named({"name": "layers", "network": [{"layer": "AveragePool", "size": 2}]}).key  # noqa: B018


@pytest.mark.parametrize("matrix", [TRAIN, TEST])
def test_a_subset_is_read_from_the_whole(paths: Paths, matrix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All 40 training images are in the whole, so every tile of 20 of them is there already."""
    whole = named(SETTINGS, train=40)
    computed(paths, whole)
    for one in whole.plan.matrices:
        gram_jobs.seal(paths, whole, one, "quick", threads=1)
    gram_jobs.prepare_inputs(paths, PLAN, "quick", seed=0)
    gram_jobs.create_store(paths, PLAN, matrix, "quick")
    sizes: list[int] = []

    def counting(x1: Any, x2: Any = None, **settings: Any) -> Any:
        sizes.append(len(x1))
        return cntk(x1, x2, **settings)

    monkeypatch.setattr(by_settings, "cntk", counting)
    for tile in PLAN.tiles(matrix):
        gram_jobs.compute_tile(paths, PLAN, matrix, tile, "quick", threads=1)
    assert max(sizes) <= subset.PROBE
    store = gram_jobs.open_store(paths, PLAN, matrix, "quick", check_all=True)
    assert store.x1 is not None
    np.testing.assert_array_equal(store.to_array(), cntk(store.x1, store.x2, depth=3, pooling="flatten"))


def test_tiles_of_older_code_are_not_taken_over(paths: Paths) -> None:
    whole = named(SETTINGS, train=40)
    stale = computed(paths, whole)[TRAIN]
    gram_jobs.seal(paths, whole, TRAIN, "quick", threads=1)
    for key in stale.keys:
        tile_file.write(stale.tile_path(key), 2 * np.asarray(stale.piece(key)), stale._tile_identity(key))
    there = computed(paths)[TRAIN].to_array()
    images = np.load(paths.gram_inputs("quick", PLAN.inputs, TRAIN))
    np.testing.assert_array_equal(there, cntk(images, depth=3, pooling="flatten"))
