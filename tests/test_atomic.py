"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from tangentbench.atomic import locked, read_json, sha256, write_json, written_whole
from tangentbench.errors import CannotWrite, ResultUnreadable


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


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    dead, living, other = (tmp_path / name for name in (".a.dead0000.txt", ".a.living00.txt", ".b.dead0000.txt"))
    for file in (dead, living, other):
        file.touch()
    with living.open("r+") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with written_whole(tmp_path / "a.txt") as temporary:
            temporary.write_text("new")
    assert names_in(tmp_path) == sorted([living.name, other.name, "a.txt"])


def test_a_writer_at_work_is_left_alone(tmp_path: Path) -> None:
    with written_whole(tmp_path / "a.txt") as first:
        first.write_text("first")
        with written_whole(tmp_path / "a.txt") as second:
            second.write_text("second")
        assert first.read_text() == "first"
    assert (tmp_path / "a.txt").read_text() == "first"
    assert names_in(tmp_path) == ["a.txt"]


def test_damaged_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": ')
    with pytest.raises(ResultUnreadable, match=r"a\.json.*delete it and run again"):
        read_json(tmp_path / "a.json")


def test_lock_is_held_by_one_and_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "part.lock"
    with locked(file, wait=False) as mine, locked(file, wait=False) as second:
        assert mine
        assert not second
    assert not file.exists()
    with locked(file, wait=True) as again:
        assert again


def test_lock_removed_while_waiting_is_taken_anew(tmp_path: Path) -> None:
    """Two who wait for the same lock never hold it together, though its file goes with every holder."""
    file, holders, seen = tmp_path / "part.lock", [], []

    def work() -> None:
        for _ in range(50):
            with locked(file, wait=True):
                holders.append(1)
                seen.append(len(holders))
                holders.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {1}
