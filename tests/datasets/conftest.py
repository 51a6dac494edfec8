"""Small published files made on the spot, a project whose configuration describes them, and a server that has them."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import struct
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tangentbench.datasets import Dataset
from tangentbench.paths import Paths

ROOT = Path(__file__).resolve().parents[2]
MIRROR_OF_THE_MACHINE = os.environ.get("TANGENTBENCH_DATA")
DIGITS = [str(digit) for digit in range(10)]


def sum_of(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def idx(array: np.ndarray) -> bytes:
    return (
        bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()
    )


def tar_gz(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


@dataclass
class Published:
    """What a make-believe publisher offers: archives by name, and the uncompressed contents in them."""

    archives: dict[str, bytes] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    entry: dict[str, Any] = field(default_factory=dict)


def small_idx(rng: np.random.Generator) -> Published:
    made = Published(entry={"title": "small digits", "format": "idx", "classes": DIGITS, "folders": ["digits", "."]})
    arrays = {
        "train_images": rng.integers(0, 256, (40, 28, 28)),
        "train_labels": np.arange(40) % 10,
        "test_images": rng.integers(0, 256, (20, 28, 28)),
        "test_labels": np.arange(20) % 10,
    }
    contents = {}
    for role, array in arrays.items():
        name = role.replace("_", "-")
        made.contents[name] = idx(array)
        made.archives[f"{name}.gz"] = gzip.compress(made.contents[name], mtime=0)
        contents[name] = {"archive": f"{name}.gz", "role": role, **sum_of(made.contents[name])}
    made.entry |= {"archives": {name: sum_of(data) for name, data in made.archives.items()}, "contents": contents}
    return made


def small_cifar(rng: np.random.Generator) -> Published:
    made = Published(entry={"title": "small photographs", "format": "cifar", "classes": DIGITS, "folders": ["cifar"]})
    for name, first in (("data_batch_1.bin", 0), ("data_batch_2.bin", 10), ("test_batch.bin", 20)):
        records = rng.integers(0, 256, (10, 3073)).astype(np.uint8)
        records[:, 0] = (first + np.arange(10)) % 10
        made.contents[name] = records.tobytes()
    members = {f"batches/{name}": data for name, data in made.contents.items()}
    made.archives["cifar.tar.gz"] = tar_gz({"batches/readme.html": b"hello", **members})
    made.entry |= {
        "archives": {"cifar.tar.gz": sum_of(made.archives["cifar.tar.gz"])},
        "contents": {
            name: {
                "archive": "cifar.tar.gz",
                "member": f"batches/{name}",
                "role": "test" if name.startswith("test") else "train",
                **sum_of(data),
            }
            for name, data in made.contents.items()
        },
    }
    return made


def small_stl(rng: np.random.Generator) -> Published:
    made = Published(entry={"title": "small large images", "format": "stl", "classes": DIGITS, "folders": ["stl"]})
    for part in ("train", "test"):
        made.contents[f"{part}_X.bin"] = rng.integers(0, 256, 3 * 3 * 96 * 96).astype(np.uint8).tobytes()
        made.contents[f"{part}_y.bin"] = bytes((1, 10, 5))
    members = {f"stl/{name}": data for name, data in made.contents.items()}
    made.archives["stl.tar.gz"] = tar_gz({**members, "stl/unlabeled_X.bin": bytes(3 * 96 * 96)})
    made.entry |= {
        "archives": {"stl.tar.gz": sum_of(made.archives["stl.tar.gz"])},
        "contents": {
            name: {
                "archive": "stl.tar.gz",
                "member": f"stl/{name}",
                "role": f"{name.split('_')[0]}_{'images' if 'X' in name else 'labels'}",
                "bytes": len(data),
                "md5": hashlib.md5(data).hexdigest(),
            }
            for name, data in made.contents.items()
        },
    }
    return made


@dataclass
class Small:
    """The small project: its paths, and what its sources publish."""

    paths: Paths
    sources: dict[str, Published]

    def configure(self, change: Callable[[dict[str, Any]], None] | None = None, address: str = "") -> None:
        """Write config/datasets.yaml; `change` edits it first, `address` is where the publisher lives."""
        nowhere = "http://127.0.0.1:9/"
        configuration: dict[str, Any] = {
            "sources": {name: {**made.entry, "addresses": [address or nowhere]} for name, made in self.sources.items()},
            "datasets": {name: {"source": name, "description": name} for name in self.sources},
        }
        if change is not None:
            change(configuration)
        self.paths.datasets.write_text(yaml.safe_dump(configuration, sort_keys=False), encoding="utf-8")

    def fill(self, folder: Path, source: str) -> Path:
        """Put the archives of `source` into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.sources[source].archives.items():
            (folder / name).write_bytes(data)
        return folder


@pytest.fixture(autouse=True)
def no_mirror_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TANGENTBENCH_DATA", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("tangentbench.datasets.prepare.download.PAUSE_SECONDS", 0.0)


@pytest.fixture(scope="session")
def published() -> dict[str, Published]:
    rng = np.random.default_rng(0)
    return {"digits": small_idx(rng), "cifar": small_cifar(rng), "stl": small_stl(rng)}


@pytest.fixture
def small(tmp_path: Path, published: dict[str, Published]) -> Small:
    root = tmp_path / "checkout"
    (root / "config").mkdir(parents=True)
    shutil.copytree(ROOT / "config" / "schemas", root / "config" / "schemas")
    project = Small(Paths(root), published)
    project.configure()
    return project


@pytest.fixture
def checkout() -> Paths:
    """The real configuration."""
    return Paths(ROOT)


@dataclass
class Server:
    """A publisher on the loopback: files by name, and the ways in which it can misbehave."""

    address: str
    files: dict[str, bytes]
    ranges: bool = True
    cut_after: int | None = None
    """Close the connection after that many bytes of every answer."""
    status: int | None = None
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Every request: the file's name and its Range header."""


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server("", {})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, wanted = self.path.lstrip("/"), self.headers.get("Range")
            state.asked.append((name, wanted))
            data = state.files.get(name)
            if data is None or state.status is not None:
                self.send_error(state.status or 404)
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and state.ranges else 0
            if start >= len(data) > 0 and start:
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            stop = len(data) if state.cut_after is None else start + state.cut_after
            self.wfile.write(data[start:stop])

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{http.server_address[1]}/"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def shared_data() -> Path:
    """The folder with the real MNIST, Fashion-MNIST and CIFAR-10, or a skip that says how to give one."""
    folder = Path(MIRROR_OF_THE_MACHINE) if MIRROR_OF_THE_MACHINE else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real data sets are not here: set TANGENTBENCH_DATA to a folder that holds them")
    return folder


def images(shape: tuple[int, ...], classes: int = 4, seed: int = 0) -> Dataset:
    """A made-up data set with `shape` training inputs, a third as many test inputs, classes taking turns."""
    rng = np.random.default_rng(seed)
    test = max(shape[0] // 3, 1)
    return Dataset(
        "made_up",
        rng.random(shape, dtype=np.float32),
        np.arange(shape[0]) % classes,
        rng.random((test, *shape[1:]), dtype=np.float32),
        np.arange(test) % classes,
        tuple(f"class{label}" for label in range(classes)),
    )


@pytest.fixture
def make_images() -> Callable[..., Dataset]:
    return images
