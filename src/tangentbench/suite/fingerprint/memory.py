"""Facts by the sum of the source text, kept between runs: Snakemake's start does not parse the package again."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

import msgspec

from tangentbench.atomic import written_whole
from tangentbench.errors import TangentbenchError
from tangentbench.suite.fingerprint import syntax
from tangentbench.suite.fingerprint.syntax import Facts, read_facts


class Memory:
    """Facts of earlier runs in `file`; what is new is added where the folder can be written."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._reader = hashlib.sha256(Path(syntax.__file__).read_bytes()).hexdigest()[:16]
        self._known: dict[str, Facts] = {}
        self._used: dict[str, Facts] = {}
        if file is not None:
            with suppress(OSError, msgspec.MsgspecError):
                reader, known = msgspec.msgpack.decode(file.read_bytes(), type=tuple[str, dict[str, Facts]])
                self._known = known if reader == self._reader else {}

    def facts(self, source: str) -> Facts:
        key = hashlib.sha256(source.encode()).hexdigest()
        if key not in self._used:
            self._used[key] = self._known[key] if key in self._known else read_facts(source)
        return self._used[key]

    def save(self) -> None:
        """Keep what this run used, unless all of it was known."""
        if self.file is None or self._used.keys() <= self._known.keys():
            return
        with suppress(TangentbenchError), written_whole(self.file) as temporary:
            temporary.write_bytes(msgspec.msgpack.encode((self._reader, self._used)))
