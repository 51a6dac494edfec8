"""The Gram store: the matrix it holds, and what it survives."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gaussian import SETTINGS, finish, gaussian, inputs, slow_and_logged, start_python

from tangentbench.errors import (
    ResultUnreadable,
    StoreMismatch,
    TangentbenchError,
    TileCorrupt,
    TilesMissing,
    TooLittleDisk,
    TooLittleMemory,
    UnfitArray,
)
from tangentbench.gram.by_settings import named_kernel
from tangentbench.gram.store import PROBE, Gram
from tangentbench.kernels import cntk, layered_kernel, myrtle

COMPUTE = """
import sys
from gaussian import SETTINGS, inputs, slow_and_logged
from tangentbench.gram.store import Gram
folder, count, tile, seconds, log = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
gram = Gram.create(folder, inputs(count), kernel=SETTINGS, tile=tile)
keys = [key for key in gram.keys if sum(key) % 2 == int(sys.argv[6])] if len(sys.argv) > 6 else None
gram.compute(slow_and_logged(log, seconds), keys)
"""


def store(folder: Any, count: int = 50, tile: int = 16, **options: Any) -> Any:
    return Gram.create(folder, inputs(count), kernel=SETTINGS, tile=tile, **options)


@pytest.fixture
def finished(tmp_path: Path) -> Any:
    gram = store(tmp_path / "gram")
    gram.compute(gaussian)
    return gram


def no_kernel(x1: Any, x2: Any = None) -> Any:
    """Serves the few entries by which a store knows its kernel, and no tile."""
    if len(x1) > PROBE:
        raise AssertionError("this tile is on disk already")
    return gaussian(x1, x2)


def damage(path: Any, offset: int = -1000) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tile", [1, 7, 16, 64])
def test_holds_the_kernel_matrix(tmp_path: Path, dtype: str, tile: int) -> None:
    x = inputs(20)
    gram = Gram.create(tmp_path, x, kernel=SETTINGS, tile=tile, dtype=dtype)
    gram.compute(gaussian)
    assert gram.dtype == dtype
    assert np.array_equal(gram.to_array(), gaussian(x).astype(dtype))
    assert np.array_equal(gram.diagonal(), np.ones(20))


def test_holds_a_rectangle(tmp_path: Path) -> None:
    x1, x2 = inputs(20), inputs(33, seed=1)
    gram = Gram.create(tmp_path, x1, x2, kernel=SETTINGS, tile=8)
    gram.compute(gaussian)
    assert gram.shape == (20, 33)
    assert np.array_equal(gram.to_array(), gaussian(x1, x2).astype(np.float32))
    v = np.random.default_rng(0).normal(size=(33, 2))
    assert np.allclose(gram.matmul(v), gram.to_array().astype(float) @ v, rtol=0, atol=1e-12)


def test_keeps_and_computes_half_of_a_symmetric_matrix(tmp_path: Path) -> None:
    sizes = []

    def counting(x1: Any, x2: Any = None) -> Any:
        sizes.append(len(x1) * len(x1 if x2 is None else x2))
        return gaussian(x1, x2)

    store(tmp_path, count=64, tile=8).compute(counting)
    assert sum(sizes) == 64 * (64 + 8) // 2
    assert len(list((tmp_path / "tiles").glob("*.npy"))) == 8 * 9 // 2


def test_reads_any_part_without_the_rest(finished: Any) -> None:
    whole = gaussian(inputs(50)).astype(np.float32)
    for a, b, c, d in [(0, 50, 0, 50), (3, 4, 40, 50), (15, 33, 0, 17), (20, 20, 0, 50), (40, 50, 1, 2)]:
        assert np.array_equal(finished.block(a, b, c, d), whole[a:b, c:d])
    assert np.array_equal(finished.rows(7, 31), whole[7:31])
    assert np.array_equal(finished.entries(np.array([3, 49]), np.array([0, 20])), whole[np.ix_([3, 49], [0, 20])])
    seen = np.zeros((50, 50))
    for rows, columns, values in finished.blocks():
        assert np.array_equal(values, whole[rows, columns])
        seen[rows, columns] += 1
    assert (seen[np.tril_indices(50)] == 1).all()


def test_multiplies_as_the_matrix_does(finished: Any) -> None:
    v = np.random.default_rng(0).normal(size=(50, 3))
    assert np.allclose(finished.matmul(v), finished.to_array().astype(float) @ v, rtol=0, atol=1e-13)
    assert np.allclose(finished.matmul(v[:, 0]), finished.matmul(v)[:, 0], rtol=0, atol=1e-13)


def test_is_one_plain_file_on_demand(finished: Any, tmp_path: Path) -> None:
    finished.as_memmap(tmp_path / "whole.npy")
    assert np.array_equal(np.load(tmp_path / "whole.npy", allow_pickle=False), finished.to_array())


def test_numpy_reads_a_tile(finished: Any) -> None:
    tile = np.load(finished.tile_path((1, 0)), allow_pickle=False)
    assert np.array_equal(tile, gaussian(inputs(50)).astype(np.float32)[16:32, :16])


def test_computes_nothing_twice(finished: Any) -> None:
    finished.compute(no_kernel)
    store(finished.folder).compute(no_kernel)


def test_a_tile_is_a_job(tmp_path: Path) -> None:
    x = inputs(50)
    jobs = store(tmp_path).missing_tiles()
    for key in jobs[::-1]:
        gram = Gram.open(tmp_path, x)
        assert not gram.tile_path(key).exists()
        gram.compute(gaussian, [key], progress=False)
        assert gram.tile_path(key).exists()
    assert Gram.open(tmp_path).missing_tiles() == []
    assert np.array_equal(Gram.open(tmp_path).to_array(), gaussian(x).astype(np.float32))


def test_says_what_is_missing(tmp_path: Path) -> None:
    gram = store(tmp_path)
    gram.compute(gaussian, [(0, 0)])
    assert (0, 0) not in gram.missing_tiles()
    with pytest.raises(TilesMissing, match="9 of the 10 tiles"):
        gram.to_array()


@pytest.mark.parametrize("old", [32, 41])
def test_extended_equals_made_at_once(tmp_path: Path, old: int) -> None:
    x = inputs(70)
    grown = Gram.create(tmp_path / "grown", x[:old], kernel=SETTINGS, tile=16)
    grown.compute(gaussian)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in grown.folder.glob("tiles/*.npy")}
    grown = grown.extend(x)
    grown.compute(gaussian)
    at_once = Gram.create(tmp_path / "at_once", x, kernel=SETTINGS, tile=16)
    at_once.compute(gaussian)
    assert np.array_equal(grown.to_array(), at_once.to_array())
    assert grown.identity == at_once.identity
    assert all((path.stat().st_mtime_ns, path.read_bytes()) == known for path, known in before.items())


def test_a_rectangle_grows_on_both_sides(tmp_path: Path) -> None:
    x1, x2 = inputs(20), inputs(30, seed=1)
    gram = Gram.create(tmp_path, x1[:12], x2[:25], kernel=SETTINGS, tile=8)
    gram.compute(gaussian)
    gram = gram.extend(x1, x2)
    gram.compute(gaussian)
    assert np.array_equal(gram.to_array(), gaussian(x1, x2).astype(np.float32))


def test_extension_wants_the_old_inputs_first(finished: Any) -> None:
    with pytest.raises(StoreMismatch, match="beginning of x1"):
        finished.extend(inputs(60, seed=1))
    with pytest.raises(UnfitArray, match="append"):
        finished.extend(inputs(50)[:40])


def test_survives_kills_at_any_moment(tmp_path: Path) -> None:
    undisturbed = store(tmp_path / "undisturbed", count=80, tile=8)
    undisturbed.compute(gaussian)
    folder, log = tmp_path / "killed", tmp_path / "log"
    done = 0
    for kill in range(4):
        process = start_python(COMPUTE, folder, 80, 8, 0.02, log)
        while process.poll() is None and len(list(folder.glob("tiles/0*.npy"))) < done + 5:
            time.sleep(0.003)
        time.sleep(0.007 * kill)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.communicate()
        done = len(list(folder.glob("tiles/0*.npy")))
    gram = Gram.open(folder, inputs(80))
    missing = gram.missing_tiles()
    assert 0 < len(missing) == 55 - done
    calls = len(log.read_text().split())
    gram.compute(slow_and_logged(log, 0))
    assert len(log.read_text().split()) == calls + len(missing)
    assert calls <= done + 4
    assert np.array_equal(gram.to_array(), undisturbed.to_array())


def test_two_processes_compute_disjoint_tiles(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for process in [start_python(COMPUTE, tmp_path / "gram", 60, 8, 0.01, log, part) for part in (0, 1)]:
        finish(process)
    assert np.array_equal(Gram.open(tmp_path / "gram").to_array(), gaussian(inputs(60)).astype(np.float32))


def test_processes_share_the_work_by_themselves(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for process in [start_python(COMPUTE, tmp_path / "gram", 60, 8, 0.02, log) for _ in range(3)]:
        finish(process)
    gram = Gram.open(tmp_path / "gram")
    assert len(log.read_text().split()) == len(gram.keys)
    assert np.array_equal(gram.to_array(), gaussian(inputs(60)).astype(np.float32))
    assert not list(gram.folder.glob("tiles/*.lock"))


def test_a_damaged_tile_is_recomputed_alone(finished: Any) -> None:
    whole = finished.to_array()
    damage(finished.tile_path((2, 1)))
    again = Gram.open(finished.folder, inputs(50))
    with pytest.raises(TileCorrupt, match=r"00002-00001\.npy.*only this tile"):
        again.to_array()
    calls = []

    def counting(x1: Any, x2: Any = None) -> Any:
        if len(x1) > PROBE:
            calls.append(1)
        return gaussian(x1, x2)

    with pytest.warns(UserWarning, match=r"00002-00001\.npy"):
        again.compute(counting)
    assert len(calls) == 1
    assert np.array_equal(again.to_array(), whole)


def test_a_shortened_or_foreign_tile_counts_as_missing(finished: Any) -> None:
    path = finished.tile_path((1, 0))
    path.write_bytes(path.read_bytes()[:-200])
    assert Gram.open(finished.folder).missing_tiles() == [(1, 0)]
    shutil.copy(finished.tile_path((2, 0)), path)
    assert Gram.open(finished.folder).missing_tiles() == [(1, 0)]


def test_other_settings_are_refused(finished: Any) -> None:
    for change, sentence in [
        ({"kernel": {**SETTINGS, "scale": 8.0}}, "scale: 7.0 there, 8.0 asked"),
        ({"dtype": "float64"}, "dtype: float32 there, float64 asked"),
        ({"tile": 8}, "tile: 16 there, 8 asked"),
    ]:
        with pytest.raises(StoreMismatch, match=sentence):
            Gram.create(finished.folder, inputs(50), **{"kernel": SETTINGS, "tile": 16, **change})  # type: ignore[arg-type, dict-item]


def test_other_data_are_refused(finished: Any) -> None:
    other = inputs(50)
    other[20, 0, 0] += 1e-3
    with pytest.raises(StoreMismatch, match="checksum of x1 differs from input 16 to 31"):
        Gram.open(finished.folder, other)
    with pytest.raises(StoreMismatch, match="float64"):
        Gram.open(finished.folder, inputs(50).astype(float))
    with pytest.raises(StoreMismatch, match="extend"):
        Gram.open(finished.folder, inputs(51))
    with pytest.raises(StoreMismatch, match="symmetric"):
        Gram.open(finished.folder, inputs(50), inputs(50))


def test_unfit_inputs_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    holed = inputs(50)
    holed[33, 1, 1] = np.nan
    for x1, x2, sentence in [
        (holed, None, "input 33"),
        (inputs(50), inputs(9, shape=(3, 3)), "make them equal"),
        (np.zeros(5), None, "shape"),
        (np.zeros((0, 5)), None, "shape"),
        (np.array([["a"]]), None, "real numbers"),
        (np.zeros((2, 2), complex), None, "real numbers"),
    ]:
        with pytest.raises(UnfitArray, match=sentence):
            Gram.create(tmp_path / "new", x1, x2, kernel=SETTINGS)
    with pytest.raises(UnfitArray, match="float16"):
        store(tmp_path / "new", dtype="float16")
    with pytest.raises(UnfitArray, match="JSON"):
        Gram.create(tmp_path / "new", inputs(5), kernel={"activation": np.tanh})
    assert not (tmp_path / "new").exists()


def test_an_unfit_kernel_loses_nothing(tmp_path: Path) -> None:
    gram = store(tmp_path)
    gram.compute(gaussian, [(0, 0)])
    with pytest.raises(UnfitArray, match="nan for inputs 16 and 0"):
        gram.compute(lambda x1, x2: np.full((len(x1), len(x1 if x2 is None else x2)), np.nan))
    with pytest.raises(UnfitArray, match="shape"):
        gram.compute(lambda x1, x2: np.ones(3))
    assert len(gram.missing_tiles()) == 9


def test_store_without_inputs_only_reads(tmp_path: Path) -> None:
    store(tmp_path)
    with pytest.raises(TangentbenchError, match="needs the inputs"):
        Gram.open(tmp_path).compute(gaussian)
    with pytest.raises(TangentbenchError, match=r"Gram\.create"):
        Gram.open(tmp_path / "nothing")
    (tmp_path / "gram.json").write_text("{")
    with pytest.raises(ResultUnreadable):
        Gram.open(tmp_path)


def test_too_little_memory_is_said_before_work_starts(tmp_path: Path) -> None:
    gram = store(tmp_path, count=256, tile=128)
    with pytest.raises(TooLittleMemory, match="tile=64 or smaller"):
        gram.compute(no_kernel, memory_limit=128 * 128 * 8)


def test_too_little_disk_is_said_before_work_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gram = store(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5000))
    with pytest.raises(TooLittleDisk, match=r"4\.88 KiB free"):
        gram.compute(no_kernel)


def test_a_disk_that_fills_up_loses_only_the_tile_at_hand(tmp_path: Path) -> None:
    code = """
import resource, sys
from gaussian import SETTINGS, gaussian, inputs
from tangentbench.errors import CannotWrite
from tangentbench.gram.store import Gram
gram = Gram.create(sys.argv[1], inputs(48), kernel=SETTINGS, tile=32)
gram.compute(gaussian, [(1, 1)])
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
try:
    gram.compute(gaussian)
except CannotWrite as error:
    print(error)
"""
    assert "00000-00000.npy: File too large" in finish(start_python(code, tmp_path))
    gram = Gram.open(tmp_path, inputs(48))
    assert gram.missing_tiles() == [(0, 0), (1, 0)]
    assert {path.name for path in (tmp_path / "tiles").iterdir()} <= {"00001-00001.npy", "00000-00000.lock"}
    gram.compute(gaussian)
    assert np.array_equal(gram.to_array(), gaussian(inputs(48)).astype(np.float32))


def test_memory_does_not_grow_with_the_matrix(tmp_path: Path) -> None:
    code = """
import sys
import numpy as np
from gaussian import SETTINGS, gaussian, inputs, peak_bytes
from tangentbench.gram.store import Gram
x = inputs(2500, shape=(2,))
gaussian(x[:128]), np.ones((128, 128)) @ np.ones((128, 2))
before = peak_bytes()
gram = Gram.create(sys.argv[1], x, kernel=SETTINGS, tile=128, dtype="float64")
gram.compute(gaussian, memory_limit=4e6)
gram.matmul(np.ones((2500, 2)))
print(peak_bytes() - before)
"""
    matrix_bytes = 2500**2 * 8
    assert int(finish(start_python(code, tmp_path))) < matrix_bytes / 4


def test_another_kernel_under_the_old_name_is_refused(finished: Any) -> None:
    """A label can be wrong, values cannot; also where nothing is left to compute."""
    with pytest.raises(StoreMismatch, match="other values than its tiles hold"):
        finished.compute(lambda x1, x2: 2 * gaussian(x1, x2))
    finished.tile_path((1, 0)).unlink()
    with pytest.raises(StoreMismatch, match="other values"):
        finished.compute(lambda x1, x2: 2 * gaussian(x1, x2))


def test_a_store_computes_the_kernel_it_names(tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((6, 4, 4, 3), np.float32)
    gram = Gram.create(tmp_path / "gram", images, kernel={"name": "cntk", "depth": 3}, tile=4)
    gram.compute()
    np.testing.assert_array_equal(gram.to_array(), cntk(images, depth=3, pooling="gap"))
    with pytest.raises(StoreMismatch, match="pooling: gap there, flatten asked"):
        Gram.create(tmp_path / "gram", images, kernel={"name": "cntk", "depth": 3, "pooling": "flatten"}, tile=4)
    spelled = {"name": "cntk", "depth": 3, "pooling": "gap", "filter": 3, "train_first_last": False}
    assert Gram.create(tmp_path / "gram", images, kernel=spelled, tile=4).missing_tiles() == []
    with pytest.raises(StoreMismatch, match="depth: 3 there, 4 asked"):
        gram.compute(named_kernel({"name": "cntk", "depth": 4}))


def test_a_store_of_any_network(tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((5, 8, 8, 3), np.float32)
    gram = Gram.create(tmp_path / "gram", images, kernel=myrtle(5))
    gram.compute()
    np.testing.assert_array_equal(gram.to_array(), layered_kernel(images, network=myrtle(5)))
    same = Gram.create(tmp_path / "gram", images, kernel={"name": "myrtle", "depth": 5, "channels": 8})
    assert same.missing_tiles() == []
