"""Unfinished work is used by the very job that left it, and by no other."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tangentbench.identity import LONGEST_NAME, RECORD, Identity, WorkFolder, file_stem, open_work
from tangentbench.training.checkpoint import checkpoint_in

OURS = Identity("a", "all", "quick", 0, {"optimiser": "sgd", "batch_size": 8}, "c0de", {"data/x.npz": "5a"}, "cpu")
EDITS: dict[str, dict[str, Any]] = {
    "optimiser in settings": {"settings": {**OURS.settings, "optimiser": "adam"}},
    "batch_size in settings": {"settings": {**OURS.settings, "batch_size": 9}},
    "loss in settings": {"settings": {**OURS.settings, "loss": "mse"}},
    "data/x.npz in inputs": {"inputs": {"data/x.npz": "5b"}},
    "code": {"code": "c0df"},
    "seed": {"seed": 1},
    "scale": {"scale": "full"},
    "part": {"part": "other"},
    "artifact": {"artifact": "b"},
    "device": {"device": "cuda"},
}


def test_work_of_the_same_job_stays(tmp_path: Path) -> None:
    open_work(tmp_path / "work", OURS).file("piece", "").write_text("kept")
    assert (open_work(tmp_path / "work", OURS).path / "piece").read_text() == "kept"


@pytest.mark.parametrize("named", EDITS)
def test_any_other_fact_starts_anew_and_says_which(
    tmp_path: Path, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = checkpoint_in(open_work(tmp_path / "work", OURS), "training")
    assert checkpoint is not None
    checkpoint.save({"epoch": 3}, {})
    saved = checkpoint.path.read_bytes()
    with caplog.at_level(logging.WARNING):
        other = open_work(tmp_path / "work", replace(OURS, **EDITS[named]))
    assert f"(other: {named})" in caplog.text
    assert not other.path.exists()
    # a file that is carried over by hand is not used either
    again = checkpoint_in(other, "training")
    checkpoint.path.write_bytes(saved)
    assert again is not None and again.path == checkpoint.path and again.load() is None


@pytest.mark.parametrize("text", ["", "[]", "null", "{", None])
def test_work_without_a_readable_record_is_nobodys(tmp_path: Path, text: str | None) -> None:
    work = open_work(tmp_path / "work", OURS)
    work.file("piece", "").write_text("whose?")
    (work.path / RECORD).unlink() if text is None else (work.path / RECORD).write_text(text)
    assert not (open_work(tmp_path / "work", OURS).path / "piece").exists()


def test_pieces_of_one_name_are_told_apart_in_the_same_order(tmp_path: Path) -> None:
    for _ in range(2):
        work = WorkFolder(tmp_path)
        assert [work.piece("run"), work.piece("run"), work.piece("other")] == ["run", "run (2)", "other"]


def test_long_names_fit_a_file_system_and_stay_apart(tmp_path: Path) -> None:
    stems = {file_stem("ü" * 300), file_stem("ü" * 301), file_stem("a" * 246)}
    assert len(stems) == 3
    assert all(len(stem.encode()) <= LONGEST_NAME for stem in stems)


def test_a_job_that_keeps_nothing_leaves_nothing(tmp_path: Path) -> None:
    work = open_work(tmp_path / "work", OURS)
    assert not work.path.exists()
    assert work.folder("matrices").parent.joinpath(RECORD).is_file()
