"""A stored data set comes back bit for bit, or not at all."""

from __future__ import annotations

import errno
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tangentbench.datasets import Dataset, load_dataset, save_dataset
from tangentbench.datasets.dataset import ARRAYS
from tangentbench.errors import CannotWrite, DataCorrupt, DataMissing, ResultUnreadable, TangentbenchError


@pytest.fixture
def dataset(make_images: Callable[..., Dataset]) -> Dataset:
    return make_images((12, 4, 4, 3)).noting(source={"name": "made up"})


@pytest.fixture
def stored(dataset: Dataset, tmp_path: Path) -> Path:
    path = tmp_path / "set.npz"
    save_dataset(dataset, path, path.with_suffix(".json"))
    return path


def as_bytes(dataset: Dataset) -> Dataset:
    x_train, x_test = (
        np.round(x * 255).astype(np.float32) / np.float32(255) for x in (dataset.x_train, dataset.x_test)
    )
    return dataset.with_inputs(x_train, x_test)


def assert_same(one: Dataset, other: Dataset) -> None:
    assert (one.name, one.classes) == (other.name, other.classes)
    for name in ARRAYS:
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()


def test_round_trip(dataset: Dataset, stored: Path) -> None:
    read = load_dataset(stored)
    assert_same(read, dataset)
    assert read.provenance["source"] == {"name": "made up"}
    assert read.provenance["shapes"]["x_train"] == [12, 4, 4, 3]
    assert read.provenance["class_counts"]["train"] == dict.fromkeys(dataset.classes, 3)


def test_pixels_are_stored_as_bytes_and_come_back_exactly(dataset: Dataset, tmp_path: Path) -> None:
    every = np.arange(256, dtype=np.float32).reshape(4, 8, 8, 1) / np.float32(255)
    pixels = replace(dataset, x_train=every, y_train=dataset.y_train[:4], x_test=every[:0], y_test=dataset.y_test[:0])
    save_dataset(pixels, tmp_path / "p.npz", tmp_path / "p.json")
    assert_same(load_dataset(tmp_path / "p.npz"), pixels)
    with np.load(tmp_path / "p.npz", allow_pickle=False) as archive:
        assert archive["x_train"].dtype == np.uint8


def test_one_value_off_the_byte_grid_keeps_the_floats(dataset: Dataset, tmp_path: Path) -> None:
    pixels = as_bytes(dataset)
    pixels.x_train[-1, -1, -1, -1] = np.nextafter(np.float32(0.2), np.float32(1))
    save_dataset(pixels, tmp_path / "p.npz", tmp_path / "p.json")
    assert_same(load_dataset(tmp_path / "p.npz"), pixels)


def test_regression_without_test_part(tmp_path: Path) -> None:
    x, y = np.ones((3, 5), np.float32), np.zeros((3, 2), np.float32)
    teacher = Dataset("teacher", x, y, x[:0], y[:0])
    save_dataset(teacher, tmp_path / "t.npz", tmp_path / "t.json")
    assert_same(load_dataset(tmp_path / "t.npz"), teacher)
    assert load_dataset(tmp_path / "t.npz").provenance["class_counts"] == {}


def test_same_content_same_bytes(dataset: Dataset, stored: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.npz"
    save_dataset(dataset, again, tmp_path / "again.json")
    assert again.read_bytes() == stored.read_bytes()
    assert (tmp_path / "again.json").read_bytes() == stored.with_suffix(".json").read_bytes()


@pytest.mark.parametrize("keep", [0, 1, 100, -1, -300])
def test_truncated(stored: Path, keep: int) -> None:
    stored.write_bytes(stored.read_bytes()[:keep])
    with pytest.raises(ResultUnreadable, match=f"cannot read {stored}.*delete it and run again"):
        load_dataset(stored)


def test_every_altered_byte_is_noticed_or_harmless(dataset: Dataset, stored: Path) -> None:
    original = stored.read_bytes()
    for position in range(0, len(original), 97):
        changed = bytearray(original)
        changed[position] ^= 0x10
        stored.write_bytes(changed)
        try:
            read = load_dataset(stored)
        except TangentbenchError as error:
            assert str(stored) in str(error)
        else:
            assert_same(read, dataset)


def test_arrays_of_another_run_name_both_sums(dataset: Dataset, stored: Path, tmp_path: Path) -> None:
    other = dataset.with_inputs(dataset.x_train + 1, dataset.x_test)
    save_dataset(other, stored, tmp_path / "elsewhere.json")
    written = json.loads((tmp_path / "elsewhere.json").read_text())["arrays"]["x_train"]["sha256"]
    expected = json.loads(stored.with_suffix(".json").read_text())["arrays"]["x_train"]["sha256"]
    with pytest.raises(DataCorrupt, match=f"{written}.*{expected}"):
        load_dataset(stored)


def test_pickles_are_never_loaded(stored: Path) -> None:
    with zipfile.ZipFile(stored, "w") as archive, archive.open("x_train.npy", "w") as member:
        np.lib.format.write_array(member, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ResultUnreadable, match="allow_pickle"):
        load_dataset(stored)


def test_missing_files_and_broken_provenance(stored: Path) -> None:
    provenance = stored.with_suffix(".json")
    for broken in ("", "{", "[]", "{}", '{"name": "a", "classes": [], "arrays": {}}', "7"):
        provenance.write_text(broken)
        with pytest.raises(ResultUnreadable, match=str(provenance)):
            load_dataset(stored)
    provenance.unlink()
    with pytest.raises(DataMissing, match=f"{provenance} is missing: .*snakemake"):
        load_dataset(stored)
    stored.unlink()
    with pytest.raises(DataMissing, match=f"{stored} is missing"):
        load_dataset(stored)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_failed_write_leaves_nothing(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr("tangentbench.datasets.store.write_npz", refuse)
    with pytest.raises(CannotWrite, match=r"cannot write .*set\.npz: no; "):
        save_dataset(dataset, tmp_path / "set.npz", tmp_path / "set.json")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_at_the_provenance_leaves_no_arrays(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tangentbench.atomic.json.dumps", refuse)
    with pytest.raises(CannotWrite, match=r"cannot write .*set\.json: .*the disk is full"):
        save_dataset(dataset, tmp_path / "set.npz", tmp_path / "set.json")
    assert list(tmp_path.iterdir()) == []


def test_shapes_and_labels_are_checked(dataset: Dataset) -> None:
    with pytest.raises(ValueError, match="12 inputs but 11 labels"):
        replace(dataset, y_train=dataset.y_train[:-1])
    with pytest.raises(ValueError, match="float32"):
        replace(dataset, x_train=dataset.x_train.astype(np.float64))
    with pytest.raises(ValueError, match="labels -1 to 2 do not fit 4 classes"):
        replace(dataset, y_train=dataset.y_train - 1)
    with pytest.raises(ValueError, match="int64"):
        replace(dataset, y_train=dataset.y_train.astype(np.int32))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="test inputs"):
        replace(dataset, x_test=dataset.x_test[:, :2])
