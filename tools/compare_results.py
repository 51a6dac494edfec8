"""Compare the tables of two checkouts: same bytes, same values, or what differs.

    python tools/compare_results.py ../other-checkout --scale quick

Exit code 1 where a table is missing or differs. Tables of measured times (`survey`) differ from run to run: of those
only the columns and the number of rows are compared.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

from tangentbench.paths import Paths, find_root
from tangentbench.suite.catalogue import Artifact, load_catalogue

TIMED_STUDIES = frozenset({"survey"})
SAME_BYTES, SAME_SHAPE = "same bytes", "same shape"


def compare(ours: Path, theirs: Path, timed: bool) -> str:
    """One line on how two CSV tables differ."""
    missing = [str(file) for file in (ours, theirs) if not file.is_file()]
    if missing:
        return f"missing: {', '.join(missing)}"
    if ours.read_bytes() == theirs.read_bytes():
        return SAME_BYTES
    left, right = pd.read_csv(ours), pd.read_csv(theirs)
    if list(left.columns) != list(right.columns):
        return f"columns differ: {sorted(set(left.columns) ^ set(right.columns))}"
    if len(left) != len(right):
        return f"{len(left)} rows against {len(right)}"
    if timed:
        return SAME_SHAPE
    differing = [name for name in left.columns if not left[name].equals(right[name])]
    numeric = [name for name in differing if pd.api.types.is_numeric_dtype(left[name])]
    largest = max(((left[name] - right[name]).abs().max() for name in numeric), default=float("nan"))
    return f"values differ in {', '.join(differing)}, by at most {largest:.3g}"


def report(ours: Paths, theirs: Paths, scale: str, artifact: Artifact) -> tuple[str, bool]:
    files = (paths.csv(scale, artifact.study, artifact.name) for paths in (ours, theirs))
    result = compare(*files, timed=artifact.study in TIMED_STUDIES)
    return f"{artifact.name:32} {result}", result in (SAME_BYTES, SAME_SHAPE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the root of another checkout with results")
    parser.add_argument("--scale", default="quick")
    arguments = parser.parse_args()
    ours, theirs = Paths(find_root()), Paths(arguments.other)
    lines = [report(ours, theirs, arguments.scale, artifact) for artifact in load_catalogue(ours)]
    print("\n".join(line for line, _ in lines))
    alike = sum(good for _, good in lines)
    print(f"{alike} of {len(lines)} tables alike")
    return 0 if alike == len(lines) else 1


if __name__ == "__main__":
    sys.exit(main())
