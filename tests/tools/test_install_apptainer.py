"""When no Apptainer can be had the installer says why and touches nothing; tests/containers runs what it installs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BASH = shutil.which("bash")


def install(folder: Path, programs: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the installer where bash and these scripts are the only programs."""
    assert BASH is not None
    for name, text in programs.items():
        (folder / name).write_text(f"#!{BASH}\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    call = [BASH, str(ROOT / "tools" / "install_apptainer")]
    return subprocess.run(call, env={"PATH": str(folder)}, capture_output=True, text=True, check=False)


def test_nothing_is_done_where_it_is_there(tmp_path: Path) -> None:
    done = install(tmp_path, {"apptainer": "exit 1", "id": "exit 1"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "programs, reason",
    [
        ({"id": "echo 1000"}, "only root"),
        ({"id": "echo 0"}, "needs mmdebstrap"),
        ({"id": "echo 0", "mmdebstrap": "exit 1", "unshare": "exit 1"}, "CAP_SYS_ADMIN"),
    ],
)
def test_refusal_gives_its_reason(programs: dict[str, str], reason: str, tmp_path: Path) -> None:
    done = install(tmp_path, programs)
    assert done.returncode == 1
    assert done.stderr.startswith("no Apptainer: ") and reason in done.stderr
