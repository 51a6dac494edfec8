"""The gallery: one static page per scale, with every artifact, its claims and what made it.

The page needs no server and no network; pictures and files are linked relative to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tangentbench.atomic import written_whole
from tangentbench.claims.decision import FAILED, HELD, NOT_RUN, NOT_TESTABLE, STATES
from tangentbench.claims.verdicts import count_states, read_claims
from tangentbench.config import load_settings
from tangentbench.paths import Paths
from tangentbench.report import wording
from tangentbench.report.cards import Card, make_card
from tangentbench.suite.catalogue import Catalogue, Study, require_scale
from tangentbench.suite.provenance import distinct

SCALE_SENTENCES = {
    "quick": "embedded data, the whole suite in minutes on two cores",
    "cpu": "real data sets, the papers' settings wherever a CPU can hold them",
    "paper": "the papers' own protocol, on a GPU node or a cluster",
}
SHORT_COMMIT = 10
FILTERS = (
    "difference_cell",
    "duration",
    "expected",
    "inline",
    "measured",
    "memory",
    "our_cell",
    "paper_cell",
    "paragraphs",
    "setting",
)


@dataclass(frozen=True)
class StateLook:
    """How a state is told apart without colour: a sign and a word; `key` is its name in the address and the CSS."""

    key: str
    sign: str
    label: str


LOOKS = {
    HELD: StateLook("held", "✓", "held"),
    FAILED: StateLook("failed", "✗", "failed"),
    NOT_TESTABLE: StateLook("not-testable", "◑", "not testable at this scale"),
    NOT_RUN: StateLook("not-run", "○", "not run"),
}


@dataclass(frozen=True)
class Section:
    """One study and its cards."""

    study: Study
    cards: list[Card]


def write_gallery(catalogue: Catalogue, paths: Paths, scale: str) -> Path:
    """Write results/SCALE/index.html and return its path."""
    page = render(catalogue, paths, scale)
    target = paths.gallery(scale)
    with written_whole(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target


def render(catalogue: Catalogue, paths: Paths, scale: str) -> str:
    """The gallery page of `scale` as HTML: the verdicts of claims.json, the tables, the pictures."""
    require_scale(scale)
    defaults = load_settings(paths)

    def section_of(study: Study) -> Section:
        verdicts = read_claims(study, paths, scale)
        artifacts = study.artifacts.values()
        return Section(study, [make_card(one, verdicts[one.name], paths, scale, defaults) for one in artifacts])

    sections = [section_of(study) for study in catalogue.studies.values()]
    cards = [card for section in sections for card in section.cards]
    return (
        environment()
        .get_template("gallery.html.j2")
        .render(
            scale=scale,
            scale_sentence=SCALE_SENTENCES[scale],
            sections=sections,
            cards=cards,
            counts=count_states(verdict for card in cards for verdict in card.verdicts),
            failures=[(card, verdict) for card in cards for verdict in card.failures],
            filters=filters_of(sections, cards),
            commit=commit_of(cards),
            finished_at=max((card.provenance["finished_at"] for card in cards if card.provenance), default=None),
            style=template_text("gallery.css"),
            script=template_text("gallery.js"),
        )
    )


def filters_of(sections: Sequence[Section], cards: Sequence[Card]) -> list[tuple[str, str, list[tuple[str, str, int]]]]:
    """The filter bar: of each group its key, its label and its choices with how many artifacts each shows."""
    kinds = [kind for kind in ("figure", "table", "theory") if any(card.artifact.kind == kind for card in cards)]
    return [
        ("study", "Study", [(one.study.name, one.study.name.replace("_", " "), len(one.cards)) for one in sections]),
        (
            "state",
            "Claims",
            [
                (LOOKS[state].key, f"{LOOKS[state].sign} {LOOKS[state].label}", sum(state in c.states for c in cards))
                for state in STATES
            ],
        ),
        ("kind", "Kind", [(kind, kind, sum(card.artifact.kind == kind for card in cards)) for kind in kinds]),
    ]


def commit_of(cards: Sequence[Card]) -> str | None:
    """The commit, or the commits, behind the results shown."""
    records = [card.provenance for card in cards if card.provenance and card.provenance.get("commit")]
    if not records:
        return None
    each = [record["commit"] for record in records]
    commits = distinct([one for commit in each for one in (commit if isinstance(commit, list) else [commit]) if one])
    dirty = any(record.get("dirty") for record in records)
    return short_commit(commits) + (" with uncommitted changes" if dirty else "")


def short_commit(commit: str | Sequence[str | None]) -> str:
    """A commit, or those of an artifact whose parts were run at several (None: outside git), as one reads it."""
    each = [commit] if isinstance(commit, str) else commit
    return ", ".join(one[:SHORT_COMMIT] if one else "none" for one in each)


def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tangentbench.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names: dict[str, Any] = {name: getattr(wording, name) for name in FILTERS}
    made.filters.update(names, short_commit=short_commit)
    made.globals["looks"] = LOOKS
    return made


def template_text(name: str) -> Markup:
    """A style sheet or script of ours, to be inlined as it is."""
    return Markup((files("tangentbench.report") / "templates" / name).read_text(encoding="utf-8"))
