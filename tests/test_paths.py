"""Paths of the rules and of a Gram store are those of `paths.Paths`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from small_project import ROOT

from tangentbench.gram import Gram
from tangentbench.gram.grid import tile_name
from tangentbench.paths import Paths

PLAIN = Paths(Path())
PLACE = ("{scale}", "{study}", "{artifact}")
STORE = ("{scale}", "{inputs}", "{kernel}", "{matrix}")
PATTERNS = {
    str(path)
    for path in (
        PLAIN.dataset("{dataset}"),
        PLAIN.dataset_provenance("{dataset}"),
        PLAIN.gallery("{scale}"),
        PLAIN.gallery("{SCALE}"),
        PLAIN.all_claims("{scale}"),
        PLAIN.claims("{scale}", "{study}"),
        PLAIN.table(*PLACE),
        PLAIN.csv(*PLACE),
        PLAIN.provenance(*PLACE),
        PLAIN.figure(*PLACE, "png"),
        PLAIN.figure(*PLACE, "pdf"),
        PLAIN.part(*PLACE, "{part}"),
        PLAIN.part_provenance(*PLACE, "{part}"),
        PLAIN.gram_inputs("{scale}", "{inputs}", "train"),
        PLAIN.gram_inputs("{scale}", "{inputs}", "test"),
        PLAIN.gram_manifest(*STORE),
        PLAIN.gram_tile(*STORE, "{tile}"),
        PLAIN.gram_certificate(*STORE),
    )
}


def test_patterns_of_the_rules() -> None:
    rules = [ROOT / "Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")]
    written = {found for file in rules for found in re.findall(r'"((?:results|data)/[^"]*)"', file.read_text("utf-8"))}
    assert written == PATTERNS


def test_files_of_a_store(tmp_path: Path) -> None:
    place = ("quick", "mine", "cntk", "train")
    paths = Paths(tmp_path)
    store = Gram.create(paths.gram_store(*place), np.ones((3, 2, 2, 1)), kernel={"name": "cntk"}, tile=2)
    assert paths.gram_manifest(*place).is_file()
    assert store.tile_path((1, 0)) == paths.gram_tile(*place, tile_name((1, 0)))
