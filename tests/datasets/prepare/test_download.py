"""Downloads from a publisher on the loopback: whole, resumed, broken, wrong, absent, and a disk that is full."""

from __future__ import annotations

import errno
import hashlib
import threading
from pathlib import Path
from typing import Any

import pytest

from tangentbench.datasets.prepare import download
from tangentbench.datasets.prepare.checksums import Published
from tangentbench.datasets.prepare.download import fetch
from tangentbench.errors import CannotWrite, DataCorrupt, DataMissing

CONTENT = bytes(range(256)) * 2000
PUBLISHED = Published(len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
NOWHERE = "http://127.0.0.1:9/file.bin"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "downloads" / "source" / "file.bin"


def get(target: Path, *addresses: str) -> None:
    fetch(addresses, PUBLISHED, target, "set TANGENTBENCH_DATA", progress=False)


def left_in(target: Path) -> list[str]:
    return sorted(file.name for file in target.parent.iterdir()) if target.parent.is_dir() else []


def test_whole(server: Any, target: Path) -> None:
    server.files["file.bin"] = CONTENT
    get(target, server.address + "file.bin")
    assert target.read_bytes() == CONTENT
    assert left_in(target) == ["file.bin"]
    assert server.asked == [("file.bin", None)]


def test_what_is_there_is_not_fetched_again(server: Any, target: Path) -> None:
    server.files["file.bin"] = CONTENT
    get(target, server.address + "file.bin")
    get(target, server.address + "file.bin")
    assert len(server.asked) == 1


def test_a_part_is_resumed(server: Any, target: Path) -> None:
    server.files["file.bin"] = CONTENT
    target.parent.mkdir(parents=True)
    target.with_name("file.bin.part").write_bytes(CONTENT[:1000])
    get(target, server.address + "file.bin")
    assert target.read_bytes() == CONTENT
    assert server.asked == [("file.bin", "bytes=1000-")]


def test_a_server_without_ranges_starts_again(server: Any, target: Path) -> None:
    server.files["file.bin"], server.ranges = CONTENT, False
    target.parent.mkdir(parents=True)
    target.with_name("file.bin.part").write_bytes(CONTENT[:1000])
    get(target, server.address + "file.bin")
    assert target.read_bytes() == CONTENT


def test_a_broken_connection_is_taken_up_again(server: Any, target: Path) -> None:
    server.files["file.bin"], server.cut_after = CONTENT, len(CONTENT) // 3
    get(target, server.address + "file.bin")
    assert target.read_bytes() == CONTENT
    assert len(server.asked) == 4


def test_a_connection_that_keeps_breaking_leaves_the_part_for_later(server: Any, target: Path) -> None:
    server.files["file.bin"], server.cut_after = CONTENT, 1000
    with pytest.raises(DataMissing, match="the connection broke"):
        get(target, server.address + "file.bin")
    assert left_in(target) == ["file.bin.part"]
    part = target.with_name("file.bin.part").read_bytes()
    assert part == CONTENT[: len(part)]
    assert len(part) == download.ATTEMPTS * 1000
    server.cut_after = None
    get(target, server.address + "file.bin")
    assert target.read_bytes() == CONTENT


def test_the_next_address_is_tried(server: Any, target: Path) -> None:
    server.files["file.bin"] = CONTENT
    get(target, NOWHERE, server.address + "gone.bin", server.address + "file.bin")
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("wrong", [b"", b"<html>log in first</html>", CONTENT[:-1] + b"x", CONTENT + b"more"])
def test_wrong_bytes_name_file_and_both_sums_and_leave_nothing(server: Any, target: Path, wrong: bytes) -> None:
    server.files["file.bin"] = wrong
    with pytest.raises(DataCorrupt) as caught:
        get(target, server.address + "file.bin")
    message = str(caught.value)
    received = wrong[: len(CONTENT) + 1]
    assert "file.bin" in message
    assert hashlib.sha256(received).hexdigest() in message
    assert PUBLISHED.sum in message
    assert server.address in message
    assert "TANGENTBENCH_DATA" in message
    assert left_in(target) == []


def test_a_stale_part_is_dropped_so_that_the_next_run_mends_it(server: Any, target: Path) -> None:
    server.files["file.bin"] = CONTENT
    target.parent.mkdir(parents=True)
    target.with_name("file.bin.part").write_bytes(b"x" * (len(CONTENT) + 5))
    with pytest.raises(DataCorrupt):
        get(target, server.address + "file.bin")
    get(target, server.address + "file.bin")
    assert target.read_bytes() == CONTENT


def test_a_stale_part_is_mended_by_the_second_address(server: Any, target: Path) -> None:
    server.files["file.bin"] = CONTENT
    target.parent.mkdir(parents=True)
    target.with_name("file.bin.part").write_bytes(b"x" * 100)
    get(target, server.address + "file.bin", server.address + "file.bin")
    assert target.read_bytes() == CONTENT


def test_no_network(target: Path) -> None:
    with pytest.raises(DataMissing) as caught:
        get(target, NOWHERE)
    message = str(caught.value)
    assert "\n" not in message
    for part in ("file.bin is not on this machine", NOWHERE, "Connection refused", "set TANGENTBENCH_DATA"):
        assert part in message
    assert left_in(target) == []


def test_unknown_host(target: Path) -> None:
    with pytest.raises(DataMissing, match="connect to the network"):
        get(target, "http://no-such-host.invalid/file.bin")


@pytest.mark.parametrize("status", [403, 404, 503])
def test_a_refusal_is_quoted(server: Any, target: Path, status: int) -> None:
    server.files["file.bin"], server.status = CONTENT, status
    with pytest.raises(DataMissing, match=f"it answered {status}"):
        get(target, server.address + "file.bin")
    assert left_in(target) == []


def test_a_server_that_falls_silent(server: Any, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as deaf:
        monkeypatch.setattr(download, "SILENCE_SECONDS", 0.2)
        with pytest.raises(DataMissing, match="no answer in time"):
            get(target, f"http://127.0.0.1:{deaf.getsockname()[1]}/file.bin")


@pytest.mark.parametrize("step", ["continue_download", "flush"])
def test_a_full_disk_leaves_nothing(server: Any, target: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    server.files["file.bin"] = CONTENT
    target.parent.mkdir(parents=True)
    target.with_name("file.bin.part").write_bytes(CONTENT[:1000])

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download, step, full)
    with pytest.raises(CannotWrite, match=r"file\.bin\.part: No space left on device; the disk is full"):
        get(target, server.address + "file.bin")
    assert left_in(target) == []


def test_a_read_only_folder(server: Any, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(CannotWrite, match="the file system is read-only"):
        get(target, server.address + "file.bin")


def test_two_at_once_fetch_it_once(server: Any, target: Path) -> None:
    server.files["file.bin"] = CONTENT
    failures: list[BaseException] = []

    def work() -> None:
        try:
            get(target, server.address + "file.bin")
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    assert target.read_bytes() == CONTENT
    assert len(server.asked) == 1
    assert left_in(target) == ["file.bin"]
