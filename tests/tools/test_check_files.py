"""The hook that looks at whole files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from small_project import ROOT


def check(*files: Path) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, str(ROOT / "tools" / "check_files.py"), *map(str, files)]
    return subprocess.run(call, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.txt", b"no last newline", "exactly one newline"),
        ("a.txt", b"too many\n\n", "exactly one newline"),
        ("a.py", b"x = 1 \n", "line 1 ends in blanks"),
        ("a.yaml", b"key: [1\n", "is not YAML"),
        ("a.md", b"\xff\n", "is not UTF-8"),
    ],
)
def test_complaints_name_the_file_and_the_remedy(tmp_path: Path, name: str, text: bytes, complaint: str) -> None:
    (tmp_path / name).write_bytes(text)
    done = check(tmp_path / name)
    assert done.returncode == 1
    assert f"{name}: " in done.stdout and complaint in done.stdout


def test_good_files_pass(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("key: 1\n---\nkey: 2\n")
    assert check(tmp_path / "good.yaml").returncode == 0


def test_every_hook_of_pre_commit_runs_from_the_environment() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [repository["repo"] for repository in hooks] == ["local"]
    for hook in hooks[0]["hooks"]:
        assert hook["language"] == "system"
