"""From published files, wherever they lie, to a data set; and what is said when they are not what they should be."""

from __future__ import annotations

import gzip
import hashlib
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tangentbench.datasets import Dataset
from tangentbench.datasets.prepare import availability
from tangentbench.datasets.prepare.pipeline import prepare
from tangentbench.errors import DataCorrupt, DataMissing, InvalidConfig, UnknownName


def made(small: Any, name: str, mirror: Path | None, seed: int = 0) -> Dataset:
    return prepare(name, small.paths, mirror, seed=seed, progress=False)


def state(small: Any, name: str, mirror: Path | None) -> Any:
    return next(record for record in availability(small.paths, mirror) if record.name == name)


def expected_digits(small: Any) -> np.ndarray:
    data = small.sources["digits"].contents["train-images"]
    return np.frombuffer(data, np.uint8, offset=16).reshape(-1, 28, 28, 1).astype(np.float32) / np.float32(255)


def test_idx_archives_in_a_folder_of_the_mirror(small: Any, tmp_path: Path) -> None:
    small.fill(tmp_path / "mirror" / "digits", "digits")
    read = made(small, "digits", tmp_path / "mirror")
    assert np.array_equal(read.x_train, expected_digits(small))
    assert read.y_train.tolist() == [digit % 10 for digit in range(40)]
    assert read.x_test.shape == (20, 28, 28, 1)
    assert read.provenance["files"][0]["origin"] == "mirror: digits/train-images.gz"
    assert read.provenance["source"]["name"] == "digits"
    assert read.provenance["seed"] == 0


def test_idx_archives_at_the_top_of_the_mirror(small: Any, tmp_path: Path) -> None:
    small.fill(tmp_path / "mirror", "digits")
    assert np.array_equal(made(small, "digits", tmp_path / "mirror").x_train, expected_digits(small))


def test_the_environment_goes_first(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small.fill(tmp_path / "good", "digits")
    bad = small.fill(tmp_path / "bad", "digits")
    (bad / "train-images.gz").write_bytes(b"bad")
    monkeypatch.setenv("TANGENTBENCH_DATA", str(tmp_path / "good"))
    assert np.array_equal(made(small, "digits", bad).x_train, expected_digits(small))


@pytest.mark.parametrize("form", ["archive", "plain", "xz", "gz"])
def test_cifar_in_every_form(small: Any, tmp_path: Path, form: str) -> None:
    folder = tmp_path / "mirror" / "cifar"
    if form == "archive":
        small.fill(folder, "cifar")
    else:
        folder.mkdir(parents=True)
        change = {"plain": bytes, "xz": lzma.compress, "gz": gzip.compress}[form]
        for name, data in small.sources["cifar"].contents.items():
            (folder / (name if form == "plain" else f"{name}.{form}")).write_bytes(change(data))  # type: ignore[operator]
    read = made(small, "cifar", tmp_path / "mirror")
    assert read.x_train.shape == (20, 32, 32, 3)
    assert read.y_train.tolist() == [*range(10), *range(10)]
    first = np.frombuffer(small.sources["cifar"].contents["data_batch_1.bin"], np.uint8)[1:3073]
    assert np.array_equal(read.x_train[0], first.reshape(3, 32, 32).transpose(1, 2, 0).astype(np.float32) / 255)
    record = state(small, "cifar", tmp_path / "mirror")
    assert (record.state, record.where, record.missing) == ("in mirror", str(folder), ())
    assert record.bytes == sum(file.stat().st_size for file in folder.iterdir())


@pytest.mark.parametrize("form", ["archive", "plain"])
def test_stl(small: Any, tmp_path: Path, form: str) -> None:
    folder = tmp_path / "mirror" / "stl"
    if form == "archive":
        small.fill(folder, "stl")
    else:
        folder.mkdir(parents=True)
        for name, data in small.sources["stl"].contents.items():
            (folder / name).write_bytes(data)
    read = made(small, "stl", tmp_path / "mirror")
    assert read.x_train.shape == read.x_test.shape == (3, 96, 96, 3)
    assert read.y_train.tolist() == [0, 9, 4]
    image = np.frombuffer(small.sources["stl"].contents["train_X.bin"], np.uint8)[: 3 * 96 * 96].reshape(3, 96, 96)
    # plane c, column j, row i
    assert read.x_train[0, 7, 80, 2] == np.float32(image[2, 80, 7]) / np.float32(255)


def test_from_the_publisher_and_then_from_the_downloads(small: Any, server: Any) -> None:
    server.files.update(small.sources["cifar"].archives)
    small.configure(address=server.address)
    before = state(small, "cifar", None)
    assert (before.state, before.where, before.missing) == ("missing", server.address, ("cifar.tar.gz",))
    assert before.bytes == len(small.sources["cifar"].archives["cifar.tar.gz"])
    first = made(small, "cifar", None)
    assert state(small, "cifar", None).state == "downloaded"
    server.status = 503
    again = made(small, "cifar", None)
    assert np.array_equal(first.x_train, again.x_train)
    assert len(server.asked) == 1
    assert again.provenance["files"][0]["origin"] == "downloads: cifar/cifar.tar.gz"


def test_only_what_the_mirror_lacks_is_fetched(small: Any, server: Any, tmp_path: Path) -> None:
    server.files.update(small.sources["digits"].archives)
    small.configure(address=server.address)
    mirror = small.fill(tmp_path / "mirror", "digits")
    (mirror / "test-labels.gz").unlink()
    assert state(small, "digits", mirror).missing == ("test-labels.gz",)
    made(small, "digits", mirror)
    assert [name for name, _ in server.asked] == ["test-labels.gz"]


def test_the_provenance_is_the_same_wherever_the_mirror_is(small: Any, tmp_path: Path) -> None:
    small.fill(tmp_path / "one" / "digits", "digits")
    small.fill(tmp_path / "two" / "digits", "digits")
    one, two = (made(small, "digits", tmp_path / name) for name in ("one", "two"))
    assert one.provenance == two.provenance
    assert str(tmp_path) not in str(one.provenance)


def test_no_network_is_one_sentence(small: Any) -> None:
    with pytest.raises(DataMissing) as caught:
        made(small, "cifar", None)
    message = str(caught.value)
    assert "\n" not in message
    for part in ("cifar.tar.gz", "http://127.0.0.1:9/cifar.tar.gz", "TANGENTBENCH_DATA", "connect to the network"):
        assert part in message
    assert not list(small.paths.data.rglob("*.part"))


@pytest.mark.parametrize("damage", ["altered", "truncated", "longer", "empty"])
@pytest.mark.parametrize(
    ("source", "name", "form"),
    [
        ("digits", "train-images.gz", "archive"),
        ("cifar", "cifar.tar.gz", "archive"),
        ("cifar", "data_batch_2.bin", "plain"),
        ("cifar", "data_batch_2.bin.xz", "xz"),
        ("cifar", "data_batch_2.bin.gz", "gz"),
    ],
)
def test_damage_in_the_mirror_is_named(
    small: Any, tmp_path: Path, source: str, name: str, form: str, damage: str
) -> None:
    folder = tmp_path / "mirror" / source
    folder.mkdir(parents=True)
    if form == "archive":
        small.fill(folder, source)
    else:
        change = {"plain": bytes, "xz": lzma.compress, "gz": gzip.compress}[form]
        for content, data in small.sources[source].contents.items():
            (folder / (content if form == "plain" else f"{content}.{form}")).write_bytes(change(data))  # type: ignore[operator]
    file = folder / name
    data = bytearray(file.read_bytes())
    if damage == "altered":
        data[len(data) // 2] ^= 0x01
    elif damage == "longer" and form in ("xz", "gz"):
        content = small.sources[source].contents[name.removesuffix(f".{form}")]
        data = bytearray({"xz": lzma.compress, "gz": gzip.compress}[form](content + b"more"))  # type: ignore[operator]
    elif damage == "longer":
        data += b"more"
    else:
        del data[0 if damage == "empty" else len(data) // 2 :]
    file.write_bytes(data)
    with pytest.raises(DataCorrupt) as caught:
        made(small, source, tmp_path / "mirror")
    message = str(caught.value)
    assert str(file) in message
    assert "\n" not in message
    assert "remove it" in message
    if form in ("archive", "plain"):
        entry = small.sources[source].entry
        known = entry["archives"] if form == "archive" else entry["contents"]
        assert known[name]["sha256"] in message
        assert hashlib.sha256(data[: known[name]["bytes"] + 1] if form == "plain" else data).hexdigest() in message


def test_damage_in_the_downloads_says_to_delete(small: Any) -> None:
    folder = small.fill(small.paths.downloads / "cifar", "cifar")
    (folder / "cifar.tar.gz").write_bytes(b"bad")
    with pytest.raises(DataCorrupt, match="delete it and run again"):
        made(small, "cifar", None)
    record = state(small, "cifar", None)
    assert record.state == "missing"
    assert record.missing == (f"{folder / 'cifar.tar.gz'} (wrong size)",)


def test_an_archive_whose_members_have_other_sums(small: Any, tmp_path: Path) -> None:
    """The archive is the published one, the configuration's sum of a member is not."""
    small.fill(tmp_path / "mirror" / "cifar", "cifar")

    def change(configuration: dict[str, Any]) -> None:
        contents = configuration["sources"]["cifar"]["contents"]
        contents["test_batch.bin"] = {**contents["test_batch.bin"], "sha256": "0" * 64}
        configuration["sources"]["cifar"] = {**configuration["sources"]["cifar"], "contents": contents}

    kept = dict(small.sources["cifar"].entry["contents"])
    try:
        small.configure(change)
        with pytest.raises(
            DataCorrupt, match=f"test_batch.bin in .*cifar.tar.gz is not what was published.*{'0' * 64}"
        ):
            made(small, "cifar", tmp_path / "mirror")
    finally:
        small.sources["cifar"].entry["contents"] = kept


def test_a_mirror_that_does_not_exist(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataMissing, match=r"data_mirror names .*nowhere, which is no folder"):
        made(small, "digits", tmp_path / "nowhere")
    monkeypatch.setenv("TANGENTBENCH_DATA", str(tmp_path / "gone"))
    with pytest.raises(DataMissing, match=r"TANGENTBENCH_DATA names .*gone, which is no folder"):
        made(small, "digits", None)


def test_transforms_run_in_order_with_the_seed(small: Any, tmp_path: Path) -> None:
    def change(configuration: dict[str, Any]) -> None:
        configuration["datasets"]["few"] = {
            "source": "digits",
            "description": "few",
            "transforms": [{"subset": {"train": 2}}, {"downsample": {"side": 7}}, {"flatten": {}}],
        }

    small.configure(change)
    mirror = small.fill(tmp_path / "mirror", "digits")
    few = made(small, "few", mirror)
    assert few.name == "few"
    assert few.x_train.shape == (20, 49)
    assert few.provenance["transforms"] == [{"subset": {"train": 2}}, {"downsample": {"side": 7}}, {"flatten": {}}]
    assert np.array_equal(few.x_train, made(small, "few", mirror).x_train)
    assert not np.array_equal(few.x_train, made(small, "few", mirror, seed=1).x_train)


def test_a_transform_that_does_not_fit_names_its_key(small: Any, tmp_path: Path) -> None:
    def change(configuration: dict[str, Any]) -> None:
        configuration["datasets"]["large"] = {
            "source": "digits",
            "description": "large",
            "transforms": [{"flatten": {}}, {"downsample": {"side": 7}}],
        }

    small.configure(change)
    mirror = small.fill(tmp_path / "mirror", "digits")
    with pytest.raises(InvalidConfig, match=r"datasets\.yaml at datasets\.large\.transforms\.1\.downsample: .*flatten"):
        made(small, "large", mirror)


def test_unknown_data_set(small: Any) -> None:
    with pytest.raises(UnknownName, match="unknown data set 'cifer': did you mean cifar"):
        made(small, "cifer", None)


def test_the_number_of_threads_does_not_change_the_bytes(checkout: Any) -> None:
    from threadpoolctl import threadpool_limits

    made_with = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            made_with.append(prepare("mnist5k_binary_28x28", checkout, None, seed=0, progress=False))
    assert np.array_equal(made_with[0].x_train, made_with[1].x_train)
