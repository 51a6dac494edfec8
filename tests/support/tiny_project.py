"""A tiny project: one artifact to build, one left unbuilt, and text that tries to break the page."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from matplotlib.figure import Figure

from tangentbench.atomic import write_json
from tangentbench.claims.verdicts import verdicts, write_claims
from tangentbench.paths import Paths
from tangentbench.suite.catalogue import Catalogue, load_catalogue
from tangentbench.suite.provenance import Recorder
from tangentbench.suite.table_io import write_csv, write_table

CHECKOUT = Path(__file__).resolve().parents[2]
HOSTILE = '<script>alert("x")</script> & "quotes" \'too\''
SCALES = {"quick": {"note": "Three runs & two widths."}, "cpu": {}, "paper": {}}


def loss(width: int) -> dict[str, Any]:
    return {"column": "loss", "where": {"width": width}}


ALPHA: dict[str, Any] = {
    "study": "alpha",
    "title": f"Alpha {HOSTILE}",
    "summary": "What alpha is about.",
    "paper": {
        "title": "A paper <b>bold</b>",
        "authors": "A. Author & B. Author",
        "year": 2020,
        "venue": "A venue",
        "url": "javascript:alert(1)",
    },
    "artifacts": {
        "alpha_fig1": {
            "title": f"Loss against width {HOSTILE}",
            "kind": "figure",
            "reference": "Figure 1",
            "caption": "The loss falls with `width`. It is measured.\n\nA second <i>paragraph</i>.",
            "scales": SCALES,
            "paper_values": [
                {"label": "loss at 10", "value": 2.05, "spread": 0.1, "unit": "nats", "measure": loss(10)},
                {"label": "loss at 999", "value": 0.5, "measure": loss(999)},
            ],
            "claims": [
                {
                    "name": "alpha_falls",
                    "statement": "The loss at 100 is at most 1.5 <em>really</em>.",
                    "measure": loss(100),
                    "compare": "at_most",
                    "expected": 1.5,
                    "scale": "quick",
                },
                {
                    "name": "alpha_small",
                    "statement": "The loss at 10 is below one.",
                    "measure": loss(10),
                    "compare": "at_most",
                    "expected": 1.0,
                    "scale": "quick",
                },
                {
                    "name": "alpha_large",
                    "statement": "The loss vanishes at 1000.",
                    "measure": loss(1000),
                    "compare": "equal",
                    "expected": 0.0,
                    "tolerance": 0.1,
                    "scale": "cpu",
                },
            ],
        },
    },
}
NOTES = "# Notes\n\n## alpha_fig1\n\nWe find the zanzibar\neffect & more.\n"

BETA: dict[str, Any] = {
    "study": "beta",
    "title": "Beta",
    "paper": {"title": "Another paper", "authors": "C. Author", "year": 2021, "url": "https://example.org/beta"},
    "artifacts": {
        "beta_constants": {
            "title": "Constants",
            "kind": "theory",
            "origin": "ours",
            "reference": "Section 2",
            "caption": "A constant.",
            "scales": SCALES,
            "claims": [
                {
                    "name": "beta_constant",
                    "statement": "The constant is one.",
                    "measure": {"column": "value"},
                    "compare": "equal",
                    "expected": 1.0,
                    "tolerance": 1e-6,
                    "scale": "quick",
                }
            ],
        }
    },
}


@dataclass(frozen=True)
class TinyProject:
    paths: Paths
    catalogue: Catalogue

    @classmethod
    def create(cls, root: Path) -> TinyProject:
        """Schemas and settings of the checkout, and a catalogue of our own; nothing is built."""
        paths = Paths(root)
        shutil.copytree(CHECKOUT / "config" / "schemas", paths.schemas)
        shutil.copy(CHECKOUT / "config" / "config.yaml", paths.settings)
        for study in (ALPHA, BETA):
            file = paths.study_catalogue(str(study["study"]))
            file.parent.mkdir(parents=True)
            file.write_text(yaml.safe_dump(study), encoding="utf-8")
        paths.study_catalogue("alpha").with_name("notes.md").write_text(NOTES, encoding="utf-8")
        return cls(paths, load_catalogue(paths))

    def build(self, seed: int = 0) -> None:
        """Build alpha_fig1 at scale quick, as the workflow would."""
        place = ("quick", "alpha", "alpha_fig1")
        settings = {"widths": [10, 100], "label": HOSTILE}
        with Recorder(self.paths.root, "alpha_fig1", scale="quick", seed=seed, settings=settings) as recorder:
            write_table(losses(), self.paths.table(*place))
            write_csv(losses(), self.paths.csv(*place))
        drawn = Figure(figsize=(4, 3))
        drawn.subplots().plot(losses()["width"], losses()["loss"], "o")
        for kind in ("png", "pdf"):
            drawn.savefig(self.paths.figure(*place, kind))
        write_json(self.paths.provenance(*place), recorder.record(outputs=[self.paths.table(*place)]))
        alpha = self.catalogue.studies["alpha"].artifacts.values()
        write_claims(self.paths.claims("quick", "alpha"), verdicts(self.catalogue, self.paths, "quick", alpha))


def losses() -> pd.DataFrame:
    """Three runs at two widths; one text column carries markup."""
    rows = [(10, 0, 2.1), (10, 1, 2.0), (10, 2, 2.2), (100, 0, 1.1), (100, 1, 1.0), (100, 2, 1.2)]
    table = pd.DataFrame(rows, columns=["width", "seed", "loss"])
    table["label"] = "<u>cell</u>"
    return table
