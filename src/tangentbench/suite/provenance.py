"""What made a result: commit, versions, seed, settings, machine, time, memory and the sums of what went in.

A record holds nothing that identifies a person or a computer: no host name, no user name, and every path relative to
the checkout.
"""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from tangentbench import __version__
from tangentbench.atomic import sha256

ALWAYS_RECORDED = ("numpy", "pandas")
RECORDED_IF_IMPORTED = ("torch", "jax")
SAME_JOB = ("artifact", "part", "scale", "seed", "settings", "code", "versions", "inputs")
GIT_TIMEOUT_SECONDS = 30
COMMIT_VARIABLE = "TANGENTBENCH_COMMIT"
COMMIT = re.compile(r"[0-9a-f]{40}")
GIB = 2**30
MIB = 2**20


@dataclass
class Recorder:
    """Times a job and says what made its outputs.

    Example:
        with Recorder(root, "npk_fig6", scale="quick", seed=0, settings=settings, inputs=[data]) as recorder:
            table.to_parquet(path)
        write_json(beside, recorder.record(outputs=[path]))
    """

    root: Path
    artifact: str
    scale: str
    seed: int
    settings: Mapping[str, Any]
    threads: int = 1
    inputs: Sequence[Path] = ()
    part: str | None = None
    code: str | None = None
    """Fingerprint of the code behind the study function, as Snakemake's rules pass it."""
    started: float = field(default=0.0, init=False)
    seconds: float | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        self.started = time.monotonic()
        self.seconds = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.monotonic() - self.started

    def record(self, outputs: Iterable[Path] = ()) -> dict[str, Any]:
        """The record; inside the block it counts the seconds until now."""
        seconds = time.monotonic() - self.started if self.seconds is None else self.seconds
        commit, dirty = commit_of(self.root)
        record: dict[str, Any] = {
            "artifact": self.artifact,
            "scale": self.scale,
            "seed": self.seed,
            "settings": dict(self.settings),
            "commit": commit,
            "dirty": dirty,
            "versions": versions(),
            "machine": machine(),
            "threads": self.threads,
            "seconds": round(seconds, 3),
            "peak_memory_mib": peak_memory_mib(),
            "inputs": describe_files(self.root, self.inputs),
            "outputs": describe_files(self.root, outputs),
            "finished_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        named = {"part": self.part, "code": self.code}
        return record | {key: value for key, value in named.items() if value is not None}

    def made(self, stored: Mapping[str, Any]) -> bool:
        """Whether `stored` is the record of this very job: same settings, seed, code, versions and inputs."""
        ours = json.loads(json.dumps(self.record()))
        return self.code is not None and all(stored.get(key) == ours.get(key) for key in SAME_JOB)


def commit_of(root: Path) -> tuple[str | None, bool | None]:
    """The commit checked out at `root` and whether the tree differs from it; (None, None) outside git.

    A repository further up that merely contains `root` is somebody else's and does not count. The container image has
    no repository: the commit it was built from stands in TANGENTBENCH_COMMIT.
    """
    answer = git(root, "rev-parse", "--show-toplevel", "HEAD")
    if answer is None:
        built_from = os.environ.get(COMMIT_VARIABLE, "")
        return (built_from, None) if COMMIT.fullmatch(built_from) else (None, None)
    top, commit = answer.splitlines()
    if Path(top).resolve() != root.resolve():
        return None, None
    changes = git(root, "status", "--porcelain")
    return commit, None if changes is None else bool(changes)


def git(root: Path, *arguments: str) -> str | None:
    """What git prints, or None where it is missing or refuses."""
    try:
        done = subprocess.run(
            # Parallel jobs ask at the same time; without this flag `status` would fight over the index lock.
            ["git", "--no-optional-locks", *arguments],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Versions of what computes; torch and jax only where the job used them, and never imported for this."""
    names = [*ALWAYS_RECORDED, *(name for name in RECORDED_IF_IMPORTED if name in sys.modules)]
    found = {"python": platform.python_version(), "tangentbench": __version__}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """The kind of computer, not which one."""
    kind: dict[str, Any] = {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        kind["gpu"] = torch.cuda.get_device_name()
    return kind


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def peak_memory_mib() -> float:
    """The most memory this process, or the largest of its finished children, ever held."""
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    unit = 1 if sys.platform == "darwin" else 1024
    return round(peak * unit / MIB, 1)


def describe_files(root: Path, files: Iterable[Path]) -> list[dict[str, Any]]:
    return [
        {"path": inside_root(root, file), "sha256": sha256(file), "bytes": Path(file).stat().st_size} for file in files
    ]


def inside_root(root: Path, file: Path) -> str:
    """`file` as seen from the checkout; of a file elsewhere only its name, so that no path of the machine stays.

    Symbolic links are not followed first: results/ may be a link to a cluster's scratch space.
    """
    for seen_root, seen_file in ((root.absolute(), Path(file).absolute()), (root.resolve(), Path(file).resolve())):
        if seen_file.is_relative_to(seen_root):
            return seen_file.relative_to(seen_root).as_posix()
    return Path(file).name


def merge(parts: Sequence[Mapping[str, Any]], outputs: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The record of an artifact put together from parts.

    Seconds are summed and the peak memory is the largest. Where the parts agree on a value it stands once; where they
    differ (another machine, another commit) all values stand in a list; lists, such as the settings that `split` cut
    apart, are joined again.
    """
    if not parts:
        raise ValueError("there is nothing to merge")
    mapped = {key: merged_mapping([part[key] for part in parts]) for key in ("settings", "versions", "machine")}
    agreed_on = {key: agreed([part[key] for part in parts]) for key in ("artifact", "scale", "seed", "commit")}
    return {
        **agreed_on,
        **mapped,
        "dirty": any_true([part["dirty"] for part in parts]),
        "threads": max(part["threads"] for part in parts),
        "seconds": round(sum(part["seconds"] for part in parts), 3),
        "peak_memory_mib": max(part["peak_memory_mib"] for part in parts),
        "inputs": distinct([entry for part in parts for entry in part["inputs"]]),
        "outputs": [dict(entry) for entry in outputs],
        "finished_at": max(part["finished_at"] for part in parts),
        "parts": [
            {key: part[key] for key in ("part", "seconds", "peak_memory_mib", "finished_at") if key in part}
            for part in parts
        ],
    }


def merged_mapping(mappings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    keys = distinct([key for mapping in mappings for key in mapping])
    return {key: agreed([mapping[key] for mapping in mappings if key in mapping]) for key in keys}


def agreed(values: Sequence[Any]) -> Any:
    """The value all share, else every distinct one in a list (lists are joined)."""
    different = distinct(values)
    if len(different) == 1:
        return different[0]
    if all(isinstance(value, list) for value in different):
        return distinct([element for value in different for element in value])
    return different


def distinct(values: Sequence[Any]) -> list[Any]:
    """Each value once, in order of appearance; values need not be hashable."""
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def any_true(values: Sequence[bool | None]) -> bool | None:
    known = [value for value in values if value is not None]
    return any(known) if known else None
