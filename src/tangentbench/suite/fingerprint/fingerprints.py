"""The fingerprint of each rule of the workflow."""

from __future__ import annotations

import atexit
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tangentbench.errors import TangentbenchError
from tangentbench.suite.fingerprint.graph import PACKAGE, Closure, Graph
from tangentbench.suite.fingerprint.memory import Memory
from tangentbench.suite.fingerprint.native import CORES, core_text
from tangentbench.suite.fingerprint.versions import counted_versions, read_lock

SOURCES = Path(__file__).resolve().parents[3]
"""The folder that holds this package, and in a checkout the C++ sources beside it."""

STUDY, FIGURE, SETTINGS = (
    f"{PACKAGE}.studies.registry:study",
    f"{PACKAGE}.studies.registry:figure",
    f"{PACKAGE}.studies.settings:settings_of",
)
ARITHMETIC = f"{PACKAGE}.device:current"
"""Sets TF32 and determinism: counts for everything that computes with torch."""


@dataclass(frozen=True)
class Step:
    """What a rule runs.

    every_entry: names in its tables come from files, so that all entries count.
    files: what it reads beside code, below the package's folder.
    """

    roots: tuple[str, ...]
    every_entry: bool = False
    files: tuple[str, ...] = ()


STEPS: Mapping[str, Step] = {
    "dataset": Step((f"{PACKAGE}.datasets.prepare.pipeline:prepare", f"{PACKAGE}.datasets.store:save_dataset")),
    "gram_inputs": Step((f"{PACKAGE}.gram.steps:prepare_inputs",)),
    # the rest of a manifest, kernel and tile, are parameters of the rule
    "gram_store": Step(
        tuple(f"{PACKAGE}.gram.{name}" for name in ("inputs:Inputs", "grid:regular_edges", "store:FORMAT"))
    ),
    "gram_tile": Step((f"{PACKAGE}.gram.steps:compute_tile",)),
    "gram_certificate": Step((f"{PACKAGE}.gram.steps:seal",)),
    "measure": Step((f"{PACKAGE}.datasets.store:load_dataset",)),
    "table": Step((f"{PACKAGE}.suite.table_io:write_table", f"{PACKAGE}.suite.table_io:write_csv")),
    "figure": Step((f"{PACKAGE}.suite.steps:FIGURE_METADATA", f"{PACKAGE}.suite.steps:FIGURE_DPI"), every_entry=True),
    "claims": Step(
        (f"{PACKAGE}.claims.verdicts:verdicts", f"{PACKAGE}.claims.verdicts:write_claims"), every_entry=True
    ),
    "gallery": Step(
        (f"{PACKAGE}.report.gallery:write_gallery",), every_entry=True, files=("report/**/*.*", "report/*.*")
    ),
}
"""Rules by name; of a store the tiles' kernel is only asked whether it exists."""


class Fingerprints:
    """The code in `sources`: the package, C++ in native/, and requirements.lock one folder up."""

    def __init__(self, sources: Path = SOURCES, memory: Memory | None = None) -> None:
        self.package = sources / PACKAGE
        self.native = sources / "native"
        if memory is None:
            memory = Memory(self.package / "__pycache__" / "fingerprints.msgpack")
            atexit.register(memory.save)
        self.graph = Graph(self.package, memory)
        self._lock = read_lock(sources.parent / "requirements.lock")
        self._cores: dict[str, str] = {}
        self._steps: dict[tuple[str, frozenset[str]], str] = {}

    def measure(self, artifact: str, words: Iterable[str], datasets: bool) -> str:
        """Of an artifact's study function and record of settings.

        words: the strings of its settings (`words_in`), by which entries of tables are found.
        datasets: whether it reads any.
        """
        return self._digest(self.measure_closure(artifact, words, datasets), "measure")

    def measure_closure(self, artifact: str, words: Iterable[str], datasets: bool) -> Closure:
        roots = [*self._registered(STUDY, artifact), *self._registered(SETTINGS, artifact)]
        return self._closure([*roots, *(STEPS["measure"].roots if datasets else ())], words)

    def figure(self, artifact: str) -> str:
        """Of the function that draws an artifact."""
        return self._digest(self.figure_closure(artifact), "figure")

    def figure_closure(self, artifact: str) -> Closure:
        step = STEPS["figure"]
        return self._closure([*self._registered(FIGURE, artifact), *step.roots], every_entry=step.every_entry)

    def step(self, rule: str, words: Iterable[str] = ()) -> str:
        """Of a rule whose code does not depend on the artifact; `words` as of `measure`."""
        key = (rule, frozenset(words))
        if key not in self._steps:
            self._steps[key] = self._digest(self.step_closure(rule, key[1]), rule)
        return self._steps[key]

    def step_closure(self, rule: str, words: Iterable[str] = ()) -> Closure:
        return self._closure(STEPS[rule].roots, words, every_entry=STEPS[rule].every_entry)

    def _registered(self, decorator: str, name: str) -> Sequence[str]:
        """The definitions of that name; none where the job itself will say that one is missing."""
        return self.graph.registered.get((decorator, name), [])

    def _closure(self, roots: Iterable[str], words: Iterable[str] = (), *, every_entry: bool = False) -> Closure:
        roots = list(roots)
        for root in roots:
            if not self.graph.exists(root):
                raise TangentbenchError(f"the fingerprint begins at {root}, which is gone: correct STEPS in {__file__}")
        words = list(words)
        found = self.graph.closure(roots, words, every_entry=every_entry)
        if "torch" in found.foreign and ARITHMETIC not in found.keys:
            found = self.graph.closure([*roots, ARITHMETIC], words, every_entry=every_entry)
        return found

    def _digest(self, closure: Closure, rule: str) -> str:
        digest = hashlib.sha256()
        for key in sorted(closure.keys):
            digest.update(f"{self.graph.node(key).digest}\n".encode())
        for table in sorted(closure.whole):
            digest.update(f"{table}:{list(self.graph.definition(table).entries)}\n".encode())
        for version in counted_versions(closure.foreign, self._lock):
            digest.update(f"{version}\n".encode())
        for core in sorted(CORES.keys() & closure.words):
            digest.update(f"{self._core(core)}\n".encode())
        for file in self._files(rule):
            digest.update(file.name.encode() + file.read_bytes())
        return digest.hexdigest()[:16]

    def _core(self, core: str) -> str:
        if core not in self._cores:
            self._cores[core] = core_text(self.native, core)
        return self._cores[core]

    def _files(self, rule: str) -> Iterator[Path]:
        found = {file for pattern in STEPS[rule].files for file in self.package.glob(pattern)}
        return (file for file in sorted(found) if file.is_file() and file.suffix not in (".py", ".pyc"))


def words_in(value: Any) -> set[str]:
    """The strings of a setting, its keys, and the names they may be cut into: "cntk_v 3" has cntk_v, cntk and v."""
    if isinstance(value, Mapping):
        return set().union(*(words_in(key) | words_in(one) for key, one in value.items()))
    if isinstance(value, list | tuple | set):
        return set().union(*(words_in(one) for one in value))
    if not isinstance(value, str):
        return set()
    words = {value}
    for token in re.findall(r"\w+", value):
        pieces = token.split("_")
        words |= {"_".join(pieces[i:j]) for i in range(len(pieces)) for j in range(i + 1, len(pieces) + 1)}
    return words
