"""Run jobs at scale quick and print which functions of the package they called: JSON, `module:name` by job.

python called_functions.py SECONDS JOB...: `measure NAME`, `dataset NAME` or `tile`. A job that takes longer is left
where it is; what it called until then counts.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from small_project import ROOT

import tangentbench
from tangentbench.datasets.prepare.pipeline import prepare
from tangentbench.gram.by_settings import named_kernel
from tangentbench.gram.store import Gram
from tangentbench.paths import Paths
from tangentbench.studies.registry import Context, figure_function, on_settings, study_function
from tangentbench.suite.catalogue import load_catalogue

FOLDER = Path(tangentbench.__file__).parent
PATHS = Paths(ROOT)
PAUSE = 0.05


class Calls:
    """The functions of the package that were called in some thread."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        name = frame.f_code.co_qualname.partition(".")[0]
        if event == "call" and file.startswith(f"{FOLDER}{os.sep}") and not name.startswith("<"):
            parts = Path(file).relative_to(FOLDER).with_suffix("").parts
            module = ".".join(("tangentbench", *(part for part in parts if part != "__init__")))
            self.names.add(f"{module}:{name}")


def watched(job: Callable[[], Any], calls: Calls) -> Any:
    sys.setprofile(calls)
    threading.setprofile(calls)
    try:
        return job()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def measure(name: str, found: dict[str, set[str]]) -> None:
    artifact = load_catalogue(PATHS).artifact(name)
    settings = next(iter(artifact.parts_at("quick").values()))
    function = study_function(artifact)
    datasets = {one: prepare(one, PATHS, None, seed=0, progress=False) for one in artifact.datasets_at("quick")}
    context = Context(seed=0, datasets=datasets)
    calls = Calls()
    found[f"measure {name}"] = calls.names
    table = watched(lambda: on_settings(function, artifact, settings, context), calls)
    draw, drawn = figure_function(artifact), Calls()
    found[f"figure {name}"] = drawn.names
    watched(lambda: draw(table, artifact), drawn)


def dataset(name: str, found: dict[str, set[str]]) -> None:
    calls = Calls()
    found[f"dataset {name}"] = calls.names
    watched(lambda: prepare(name, PATHS, None, seed=0, progress=False), calls)


def tile(_: str, found: dict[str, set[str]]) -> None:
    calls = Calls()
    found["tile"] = calls.names
    images = np.random.default_rng(0).standard_normal((4, 4, 4, 3)).astype(np.float32)
    settings = {"name": "cntk", "depth": 2, "pooling": "gap"}
    with TemporaryDirectory() as folder:
        store = Gram.create(Path(folder) / "gram", images, kernel=settings, tile=2)
        watched(lambda: store.compute(named_kernel(settings)), calls)


def follow(job: str, seconds: float, answer: Path) -> None:
    """Run `job` in a thread for at most `seconds` of processor time once it has begun, write what it called, and end
    the process with all its threads.
    """
    kind, _, name = job.partition(" ")
    found: dict[str, set[str]] = {}
    failed = False

    def run() -> None:
        nonlocal failed
        try:
            {"measure": measure, "dataset": dataset, "tile": tile}[kind](name, found)
        except Exception:
            failed = True
            traceback.print_exc()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    begin = None
    while thread.is_alive() and (begin is None or time.process_time() - begin < seconds):
        thread.join(PAUSE)
        begin = time.process_time() if begin is None and any(found.values()) else begin
    answer.write_text(json.dumps({one: sorted(names) for one, names in found.items()}), encoding="utf-8")
    os._exit(int(failed))


def main(seconds: float, jobs: list[str]) -> int:
    """Every job in a process of its own, so that none is seen in another's calls."""
    answers, status = {}, 0
    with TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        for job in jobs:
            child = os.fork()
            if child == 0:
                follow(job, seconds, answer)
            status |= os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            answers.update(json.loads(answer.read_text(encoding="utf-8")))
    print(json.dumps(answers))
    return status


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
