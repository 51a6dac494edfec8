"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tangentbench.errors import CannotWrite
from tangentbench.files import read_json, sha256, write_json, written_whole


def names_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_written_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file.txt"
    with written_whole(target) as temporary:
        temporary.write_text("all of it")
        assert not target.exists()
    assert target.read_text() == "all of it"
    assert names_in(target.parent) == ["file.txt"]


def test_a_failure_keeps_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    target.write_text("old")

    def fail() -> None:
        with written_whole(target) as temporary:
            temporary.write_text("new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_text() == "old"
    assert names_in(tmp_path) == ["file.txt"]


@pytest.mark.parametrize(
    ("code", "words"), [(errno.ENOSPC, "disk is full"), (errno.EROFS, "read-only"), (errno.EACCES, "permission")]
)
def test_system_errors_become_sentences(tmp_path: Path, code: int, words: str) -> None:
    def fail() -> None:
        with written_whole(tmp_path / "file.txt"):
            raise OSError(code, os.strerror(code))

    with pytest.raises(CannotWrite, match=words):
        fail()
    assert not names_in(tmp_path)


def test_a_file_in_the_way_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    with pytest.raises(CannotWrite, match="results"), written_whole(tmp_path / "results" / "file.txt"):
        pass


def test_json_round_trip_and_sum(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": [1, "ü"], "a": None})
    write_json(tmp_path / "b.json", {"a": None, "b": [1, "ü"]})
    assert read_json(tmp_path / "a.json") == {"b": [1, "ü"], "a": None}
    assert sha256(tmp_path / "a.json") == sha256(tmp_path / "b.json")
