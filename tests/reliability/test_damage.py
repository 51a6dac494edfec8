"""Damaged files: noticed whichever byte it is, named in one sentence, and only they are made again."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from gaussian import SETTINGS, gaussian, inputs
from small_project import Project
from trial_project import (
    STEPS,
    assert_one_sentence,
    assert_same_part,
    assert_succeeds,
    flip,
    job,
    part,
    steps_taken,
    work,
)

from tangentbench.atomic import write_json
from tangentbench.datasets.dataset import Dataset
from tangentbench.datasets.store import load_dataset, save_dataset
from tangentbench.errors import DataCorrupt, ResultUnreadable, TileCorrupt
from tangentbench.gram.store import Gram
from tangentbench.suite.provenance import describe_files
from tangentbench.suite.table_io import read_table, write_table
from tangentbench.training.checkpoint import Checkpoint

pytestmark = pytest.mark.reliability


def damaged_copies(file: Path, every: int = 1) -> Iterator[Any]:
    """The file with one byte flipped, at every place in turn, and cut off at some; whole again afterwards."""
    whole = file.read_bytes()
    for position in range(0, len(whole), every):
        flip(file, position)
        yield position
        file.write_bytes(whole)
    for length in range(0, len(whole), max(1, len(whole) // 20)):
        file.write_bytes(whole[:length])
        yield f"cut to {length}"
        file.write_bytes(whole)


def test_any_damage_to_a_table_is_noticed(tmp_path: Path) -> None:
    table = tmp_path / "all.parquet"
    write_table(pd.DataFrame({"width": [64, 256], "error": [0.5, 0.25], "name": ["a", "b"]}), table)
    write_json(tmp_path / "all.json", {"outputs": describe_files(tmp_path, [table])})
    for where in damaged_copies(table, every=7):
        with pytest.raises(ResultUnreadable, match=r"all.parquet.*delete it and run again"):
            pytest.fail(f"{where}: {read_table(table)}")
    assert len(read_table(table)) == 2


def test_any_damage_to_a_checkpoint_is_noticed_or_harmless(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    progress = Checkpoint(tmp_path / "training.npz", identity="trial")
    facts, tensors = {"epoch": 3, "active": [0, 1]}, {"last": torch.arange(6.0).reshape(2, 3)}
    progress.save(facts, tensors)
    ignored = 0
    with caplog.at_level(logging.WARNING):
        progress.path.with_name("other.npz").write_bytes(b"PK")
        assert Checkpoint(tmp_path / "other.npz", identity="trial").load() is None
    assert "other.npz cannot be read" in caplog.text
    assert "starts again" in caplog.text
    with caplog.at_level(logging.CRITICAL):
        for where in damaged_copies(progress.path):
            found = progress.load()
            if found is None:
                ignored += 1
                continue
            # a date inside the archive, say
            assert found.facts == facts, where
            assert set(found.arrays) == {"last"}, where
            assert torch.equal(found.tensors["last"], tensors["last"]), where
    assert ignored > progress.path.stat().st_size / 2


def test_any_damage_to_a_data_file_is_noticed_or_harmless(tmp_path: Path) -> None:
    x, y = np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3), np.array([0, 1, 0, 1])
    whole = Dataset("tiny", x, y, x[:2], y[:2], ("a", "b"))
    file = tmp_path / "tiny.npz"
    save_dataset(whole, file, tmp_path / "tiny.json")
    noticed = 0
    for where in damaged_copies(file):
        try:
            found = load_dataset(file)
        except (DataCorrupt, ResultUnreadable) as error:
            assert "delete it and run again" in str(error), where
            noticed += 1
        else:
            assert np.array_equal(found.x_train, x) and np.array_equal(found.y_test, y[:2]), where
    assert noticed > file.stat().st_size / 2


def test_any_damage_to_a_tile_is_noticed(tmp_path: Path) -> None:
    points = inputs(6)
    whole = Gram.create(tmp_path, points, kernel=SETTINGS, tile=4)
    whole.compute(gaussian, progress=False)
    expected = whole.to_array()
    tile = whole.tile_path((1, 0))
    for where in damaged_copies(tile, every=3):
        if whole.missing_tiles():
            continue  # its size, or what it was computed from, is no longer right: it counts as not there
        with pytest.raises(TileCorrupt, match="only this tile will be recomputed"):
            pytest.fail(f"{where}: {Gram.open(tmp_path, points).piece((1, 0))}")
    flip(tile, 140)
    again = Gram.open(tmp_path, points)
    with pytest.warns(UserWarning, match="is recomputed"):
        again.compute(gaussian, progress=False)
    assert np.array_equal(again.to_array(), expected)


def test_damaged_checkpoint_and_tile_of_a_killed_job(trial: Project, undisturbed: Project) -> None:
    """The job goes on; a damaged tile is computed again, a damaged checkpoint costs the training, and both are said."""
    stop = trial.root / "stop"
    for name, step in (("trial_gram", 10), ("trial_training", 15)):
        stop.write_text(str(step))
        assert trial.run(*job(name)).returncode != 0
    stop.unlink()
    tiles = sorted((work(trial, "trial_gram") / "gram/tiles").glob("0*.npy"))
    flip(tiles[4], 300)
    (work(trial, "trial_training") / "training.npz").write_bytes(b"PK\x03\x04 cut off")
    gram, training = trial.run(*job("trial_gram")), trial.run(*job("trial_training"))
    assert_succeeds(gram)
    assert_succeeds(training)
    assert tiles[4].name in gram.stderr and "recomputed" in gram.stderr
    assert "starts again" in training.stderr
    again = STEPS["trial_gram"] - len(tiles) + 1
    assert steps_taken(trial) == 15 + again + STEPS["trial_training"]
    for name in STEPS:
        assert_same_part(trial, undisturbed, name)


def test_jobs_name_the_damaged_file(undisturbed: Project, tmp_path: Path) -> None:
    copy = Project(tmp_path / "project")
    shutil.copytree(undisturbed.root, copy.root, symlinks=True)
    table = ["python", "-m", "tangentbench.suite.steps", "table", "trial_gram", "--scale", "quick"]
    flip(part(copy, "trial_gram"), 200)
    assert_one_sentence(copy.run(*table), "parts/trial_gram/all.parquet", "delete it and run again")
    part(copy, "trial_training", "json").write_text("{")
    table[4] = "trial_training"
    assert_one_sentence(copy.run(*table), "parts/trial_training/all.json", "delete it and run again")
    flip(copy.root / "data/sphere_pairs.npz", 4000)
    assert_one_sentence(copy.run(*job("trial_gram")), "data/sphere_pairs.npz", "delete it and run again")
