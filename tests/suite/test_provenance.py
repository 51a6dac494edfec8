from __future__ import annotations

import getpass
import hashlib
import json
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tangentbench import __version__
from tangentbench.suite import provenance
from tangentbench.suite.provenance import Recorder, agreed, commit_of, inside_root, merge

GIT_IDENTITY = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]


def git(root: Path, *arguments: str) -> str:
    command = ["git", *GIT_IDENTITY, *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "-q")
    (root / "file.txt").write_text("one")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    return root


def make_record(root: Path, seconds: float = 1.5, outputs: Iterable[Path] = (), **changes: Any) -> dict[str, Any]:
    common = {"scale": "quick", "seed": 3, "settings": {"widths": [25], "step": 0.1}, "threads": 2}
    recorder = Recorder(root, "npk_fig6", **{**common, **changes})
    recorder.seconds = seconds
    return recorder.record(outputs)


def test_commit_is_clean_then_dirty(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert commit_of(repository) == (head, False)
    (repository / "new.txt").write_text("untracked code changes results too")
    assert commit_of(repository) == (head, True)


def test_no_commit_outside_git_or_before_the_first(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == (None, None)
    git(tmp_path, "init", "-q")
    assert commit_of(tmp_path) == (None, None)


def test_the_image_knows_the_commit_it_was_built_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANGENTBENCH_COMMIT", "0123456789" * 4)
    assert commit_of(tmp_path) == ("0123456789" * 4, None)
    monkeypatch.setenv("TANGENTBENCH_COMMIT", "unknown")
    assert commit_of(tmp_path) == (None, None)


def test_a_repository_around_the_checkout_is_not_its_own(repository: Path) -> None:
    inner = repository / "unpacked"
    inner.mkdir()
    assert commit_of(inner) == (None, None)


def test_without_git_there_is_no_commit(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert commit_of(repository) == (None, None)


def test_record_says_what_made_it(repository: Path) -> None:
    data = repository / "data" / "digits.npz"
    data.parent.mkdir()
    data.write_bytes(b"digits")
    record = make_record(repository, inputs=[data])
    assert record["commit"] == git(repository, "rev-parse", "HEAD")
    assert record["inputs"] == [
        {"path": "data/digits.npz", "sha256": hashlib.sha256(b"digits").hexdigest(), "bytes": 6}
    ]
    assert record["versions"]["numpy"] == np.__version__
    assert record["versions"]["tangentbench"] == __version__
    assert record["versions"]["python"] == platform.python_version()
    assert record["machine"]["cores"] >= 1 and record["machine"]["memory_gib"] > 0
    assert record["peak_memory_mib"] > 10
    assert record["finished_at"].endswith("Z")
    assert json.loads(json.dumps(record)) == record


def test_torch_counts_only_where_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert "torch" not in provenance.versions()
    monkeypatch.setitem(sys.modules, "torch", object())
    assert "torch" in provenance.versions()


def test_record_names_neither_computer_nor_person(repository: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "mirror" / "train.gz"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(b"x")
    record = make_record(repository, inputs=[elsewhere], outputs=[repository / "file.txt"])
    text = json.dumps(record)
    assert record["inputs"][0]["path"] == "train.gz"
    assert str(tmp_path) not in text
    assert socket.gethostname() not in text
    assert f"/{getpass.getuser()}" not in text


def test_paths_through_a_linked_results_folder_stay_inside(tmp_path: Path) -> None:
    root, scratch = tmp_path / "root", tmp_path / "scratch"
    root.mkdir()
    scratch.mkdir()
    (root / "results").symlink_to(scratch)
    assert inside_root(root, root / "results" / "a.parquet") == "results/a.parquet"


def test_relative_root_is_the_current_folder(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    assert commit_of(Path())[0] == git(repository, "rev-parse", "HEAD")
    assert inside_root(Path(), Path("file.txt")) == "file.txt"


def test_recorder_times_its_block_only(repository: Path) -> None:
    with Recorder(repository, "a", scale="quick", seed=0, settings={}) as recorder:
        time.sleep(0.05)
        inside = recorder.record()["seconds"]
    time.sleep(0.2)
    after = recorder.record(outputs=[repository / "file.txt"])
    assert 0.05 <= inside <= after["seconds"] < 0.2
    assert [entry["path"] for entry in after["outputs"]] == ["file.txt"]


def test_recorder_lets_errors_through(repository: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        Recorder(repository, "a", scale="quick", seed=0, settings={}),
    ):
        _ = 1 / 0


def test_merge_sums_time_keeps_the_peak_and_joins_settings(repository: Path) -> None:
    shared = repository / "file.txt"
    other = repository / "other.txt"
    other.write_text("two")
    first = make_record(repository, part="w=25", inputs=[shared], seconds=2.0)
    second = make_record(
        repository, part="w=500", inputs=[shared, other], seconds=3.0, settings={"widths": [500], "step": 0.1}
    )
    second["peak_memory_mib"] = first["peak_memory_mib"] + 7
    second["machine"] = {**first["machine"], "cpu": "another"}
    whole = merge([first, second])
    assert whole["seconds"] == 5.0
    assert whole["peak_memory_mib"] == second["peak_memory_mib"]
    assert whole["settings"] == {"widths": [25, 500], "step": 0.1}
    assert [entry["path"] for entry in whole["inputs"]] == ["file.txt", "other.txt"]
    assert whole["machine"]["cpu"] == [first["machine"]["cpu"], "another"]
    assert whole["commit"] == first["commit"] and whole["seed"] == 3
    assert [part["part"] for part in whole["parts"]] == ["w=25", "w=500"]


def test_merge_shows_different_commits_and_any_dirt(repository: Path) -> None:
    first, second = make_record(repository), make_record(repository)
    second["commit"], second["dirty"] = "f" * 40, True
    whole = merge([first, second])
    assert whole["commit"] == [first["commit"], "f" * 40]
    assert whole["dirty"] is True


def test_merge_of_one_part_keeps_everything_that_matters(repository: Path) -> None:
    only = make_record(repository, part="all")
    whole = merge([only])
    assert {key: whole[key] for key in only if key != "part"} == {key: only[key] for key in only if key != "part"}


def test_nothing_to_merge() -> None:
    with pytest.raises(ValueError, match="nothing to merge"):
        merge([])


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1, 1], 1), ([1, 2, 1], [1, 2]), ([[1], [2], [1]], [1, 2]), ([{"a": 1}, {"a": 1}], {"a": 1})],
)
def test_agreed(values: list, expected: Any) -> None:  # type: ignore[type-arg]
    assert agreed(values) == expected
