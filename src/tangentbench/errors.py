"""Every mistake a user can make has its own error here: one sentence that says what, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class TangentbenchError(Exception):
    """An error a user can cause and mend; shown as one sentence, without a traceback."""


class NotACheckout(TangentbenchError):
    def __init__(self, start: Path) -> None:
        super().__init__(
            f"no tangentbench checkout (a folder with config/catalogue) at or above {start}: "
            "change into one, or set TANGENTBENCH_HOME to it"
        )


class InvalidConfig(TangentbenchError):
    """A configuration file that cannot be read or does not fit its schema."""

    def __init__(self, file: Path | str, key: str, reason: str) -> None:
        self.file, self.key, self.reason = str(file), key, reason
        where = f" at {key}" if key else ""
        super().__init__(f"{file}{where}: {reason}")


class UnknownName(TangentbenchError):
    """A name that is not in the list it should come from, with the nearest ones that are."""

    def __init__(self, kind: str, name: str, known: Iterable[str], see: str = "") -> None:
        known = sorted(known)
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
        super().__init__(f"unknown {kind} '{name}': {hint}{'; ' + see if see else ''}")


class NotWorkingYet(TangentbenchError):
    def __init__(self, artifact: str) -> None:
        super().__init__(f"{artifact} is planned and cannot be built yet: `tangentbench list` shows what works")


class DataMissing(TangentbenchError):
    """A data file that is neither in the mirror nor to be had from its publisher."""


class DataCorrupt(TangentbenchError):
    """A data file whose bytes are not the published ones."""


class CannotWrite(TangentbenchError):
    def __init__(self, path: Path | str, reason: str, remedy: str) -> None:
        super().__init__(f"cannot write {path}: {reason}; {remedy}")


class Diverged(TangentbenchError):
    """A training whose loss is no longer a number."""

    def __init__(self, what: str, step: int, setting: str) -> None:
        super().__init__(f"{what} became NaN or infinite at step {step} with {setting}: lower the step size")


class ResultUnreadable(TangentbenchError):
    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"cannot read {path} ({reason}): delete it and run again, only it will be rebuilt")
