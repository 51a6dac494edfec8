"""Unpacking never yields more than was announced, and says what is wrong with a damaged file."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from pathlib import Path

import pytest

from tangentbench.datasets.prepare import unpack
from tangentbench.errors import DataCorrupt

CONTENT = bytes(range(256)) * 40


@pytest.fixture(params=["gz", "xz"])
def compressed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"content.{request.param}"
    path.write_bytes({"gz": gzip.compress, "xz": lzma.compress}[request.param](CONTENT))  # type: ignore[operator]
    return path


def read(path: Path, limit: int) -> bytes:
    return {".gz": unpack.read_gz, ".xz": unpack.read_xz}[path.suffix](path, limit)


def test_whole_content_comes_back(compressed: Path) -> None:
    assert read(compressed, len(CONTENT)) == CONTENT


def test_at_most_one_byte_more_than_the_limit(compressed: Path) -> None:
    assert read(compressed, 100) == CONTENT[:101]


def test_a_bomb_is_cut_off(tmp_path: Path) -> None:
    for suffix, compress in ((".gz", gzip.compress), (".xz", lzma.compress)):
        path = tmp_path / f"bomb{suffix}"
        path.write_bytes(compress(bytes(5_000_000)))
        assert len(read(path, 1000)) == 1001


@pytest.mark.parametrize("length", [0, 1, 10, -1, -20])
def test_a_truncated_file_is_named(compressed: Path, length: int) -> None:
    data = compressed.read_bytes()
    compressed.write_bytes(data[:length])
    if compressed.suffix == ".gz" and length == 0:
        assert read(compressed, len(CONTENT)) == b""  # an empty gzip file is valid; its sum is not
        return
    with pytest.raises(DataCorrupt, match=str(compressed)):
        read(compressed, len(CONTENT))


def test_an_altered_byte_never_passes(compressed: Path) -> None:
    data = bytearray(compressed.read_bytes())
    data[len(data) // 2] ^= 0xFF
    compressed.write_bytes(data)
    with pytest.raises(DataCorrupt, match="truncated or damaged"):
        read(compressed, len(CONTENT))


def test_xz_that_asks_for_much_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "greedy.xz"
    greedy = lzma.LZMACompressor(filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}])
    data = bytearray(greedy.compress(CONTENT) + greedy.flush())
    path.write_bytes(data)
    unpack_memory, unpack.XZ_MEMORY = unpack.XZ_MEMORY, 1 << 19
    try:
        with pytest.raises(DataCorrupt, match=r"(?i)memory"):
            read(path, len(CONTENT))
    finally:
        unpack.XZ_MEMORY = unpack_memory


def write_tar(path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for entry, data in entries:
            entry.size = len(data) if entry.isreg() else 0
            archive.addfile(entry, io.BytesIO(data))
    return path


def test_members_are_read_by_name_and_nothing_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "only"
    folder.mkdir()
    wanted, evil = tarfile.TarInfo("./a/one.bin"), tarfile.TarInfo("../../evil")
    path = write_tar(folder / "x.tar.gz", [(evil, b"evil"), (wanted, CONTENT), (tarfile.TarInfo("a/two.bin"), b"2")])
    found = unpack.read_members(path, {"a/one.bin": len(CONTENT), "a/two.bin": 1})
    assert found == {"a/one.bin": CONTENT, "a/two.bin": b"2"}
    assert [file.name for file in folder.iterdir()] == ["x.tar.gz"]


def test_reading_stops_when_all_members_are_there(tmp_path: Path) -> None:
    """What follows the wanted members may be cut off: it is not looked at."""
    path = write_tar(tmp_path / "x.tar.gz", [(tarfile.TarInfo("a"), b"1"), (tarfile.TarInfo("big"), CONTENT * 200)])
    raw = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(raw[: len(raw) // 2]))
    assert unpack.read_members(path, {"a": 1}) == {"a": b"1"}


def test_a_member_of_another_size_kind_or_none_is_refused(tmp_path: Path) -> None:
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    path = write_tar(tmp_path / "x.tar.gz", [(tarfile.TarInfo("a"), b"12345"), (link, b"")])
    with pytest.raises(DataCorrupt, match="no plain file of 4 bytes"):
        unpack.read_members(path, {"a": 4})
    with pytest.raises(DataCorrupt, match="no plain file"):
        unpack.read_members(path, {"link": 0})
    with pytest.raises(DataCorrupt, match="lacks b, c"):
        unpack.read_members(path, {"b": 4, "c": 1})


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_a_truncated_tar_is_named(tmp_path: Path, keep: float) -> None:
    path = write_tar(tmp_path / "x.tar.gz", [(tarfile.TarInfo("a"), CONTENT)])
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(DataCorrupt, match=str(path)):
        unpack.read_members(path, {"a": len(CONTENT)})
