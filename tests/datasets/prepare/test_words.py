"""Word vectors: a small file of GloVe's format, plain and in a zip, through the sources."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tangentbench.datasets.prepare.formats import read_word_vectors
from tangentbench.datasets.prepare.pipeline import prepare
from tangentbench.datasets.prepare.unpack import read_zip_members
from tangentbench.errors import DataCorrupt

VECTORS = {"the": [0.5, -1.25, 2.0], "fox": [0.1, 0.2, 0.3], "foxes": [9.0, 9.0, 9.0], "ünder": [1.0, 0.0, -1.0]}
TEXT = "".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in VECTORS.items()).encode()
WORDS = ["fox", "the"]


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def sum_of(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


ARCHIVE = zipped({"glove.50d.txt": b"other", "glove.3d.txt": TEXT})


@pytest.fixture
def with_words(small: Any) -> Any:
    def change(configuration: dict[str, Any]) -> None:
        configuration["sources"]["words"] = {
            "title": "small vectors",
            "format": "word_vectors",
            "folders": ["glove", "."],
            "addresses": ["http://127.0.0.1:9/"],
            "archives": {"glove.zip": sum_of(ARCHIVE)},
            "contents": {
                "glove.3d.txt": {
                    "archive": "glove.zip", "member": "glove.3d.txt", "role": "words", **sum_of(TEXT),
                }
            },
            "parameters": {"words": WORDS},
        }  # fmt: skip
        configuration["datasets"]["fox"] = {"source": "words", "description": "two words"}

    small.configure(change)
    return small


@pytest.mark.parametrize("form", ["plain", "zip"])
def test_vectors_of_the_words_asked_for(with_words: Any, tmp_path: Path, form: str) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    if form == "plain":
        (mirror / "glove.3d.txt").write_bytes(TEXT)
    else:
        (mirror / "glove.zip").write_bytes(ARCHIVE)
    dataset = prepare("fox", with_words.paths, mirror=mirror, seed=0, progress=False)
    assert dataset.classes == ("fox", "the")
    np.testing.assert_array_equal(dataset.x_train, np.float32([VECTORS["fox"], VECTORS["the"]]))  # type: ignore[arg-type]
    assert dataset.y_train.tolist() == [0, 1]
    assert len(dataset.x_test) == 0


def test_a_changed_file_is_refused(with_words: Any, tmp_path: Path) -> None:
    (tmp_path / "glove.3d.txt").write_bytes(TEXT.replace(b"0.5", b"0.6"))
    with pytest.raises(DataCorrupt, match="not what was published"):
        prepare("fox", with_words.paths, mirror=tmp_path, seed=0, progress=False)


def test_words_are_found_whole_at_the_beginning_and_the_end() -> None:
    found = read_word_vectors(TEXT.rstrip(b"\n"), ["the", "fox", "ünder"], "the file")
    np.testing.assert_allclose(found, [VECTORS[word] for word in ("the", "fox", "ünder")])


@pytest.mark.parametrize(
    ("data", "words", "message"),
    [
        (TEXT, ["dog"], "no vector of the word 'dog'"),
        (TEXT, ["he"], "no vector of the word 'he'"),
        (b"the 1 2\nfox 1\n", ["the", "fox"], "different lengths"),
        (b"the one two\n", ["the"], "no table of word vectors"),
        (b"the \n", ["the"], "different lengths"),
    ],
    ids=["absent", "part of a word", "ragged", "no numbers", "empty"],
)
def test_other_files_are_refused(data: bytes, words: list[str], message: str) -> None:
    with pytest.raises(DataCorrupt, match=message):
        read_word_vectors(data, words, "the file")


def test_zip_members_are_read_by_name_and_size(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(zipped({"a": b"12345", "b": b"6"}))
    assert read_zip_members(path, {"a": 5}) == {"a": b"12345"}
    with pytest.raises(DataCorrupt, match="no plain file of 4 bytes"):
        read_zip_members(path, {"a": 4})
    with pytest.raises(DataCorrupt, match="lacks c"):
        read_zip_members(path, {"c": 1})
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DataCorrupt, match="truncated or damaged"):
        read_zip_members(path, {"a": 5})
