"""The catalogue: every table and figure of the papers, as data.

One folder per study under src/tangentbench/studies, with its catalogue.yaml and notes.md. Everything else (Snakemake's
targets, the command line, the gallery, the claims) is derived from it. This module stays light: no torch, no pandas.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tangentbench.config import SCALES, load_checked
from tangentbench.errors import InvalidConfig, UnknownName
from tangentbench.paths import Paths


@dataclass(frozen=True)
class PaperValue:
    """A number a paper prints, and the measure of our table that stands beside it."""

    label: str
    value: float
    spread: float | None = None
    unit: str = ""
    measure: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper that a measure of our table can decide.

    `scale` is the smallest scale that can decide it.
    """

    name: str
    artifact: str
    statement: str
    scale: str
    measure: Mapping[str, Any]
    compare: str
    expected: float | tuple[float, float]
    tolerance: float = 0.0


@dataclass(frozen=True)
class Artifact:
    """One table or figure: what it shows, with what settings at which scale, and what the paper says of it."""

    name: str
    study: str
    title: str
    kind: str
    reference: str
    caption: str
    origin: str = "paper"
    notes: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    datasets: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    split: tuple[str, ...] = ()
    threads: int = 1
    scales: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    paper_values: tuple[PaperValue, ...] = ()
    claims: tuple[Claim, ...] = ()

    def settings_at(self, scale: str) -> dict[str, Any]:
        """The settings common to all scales with those of `scale` on top; groups are merged key by key."""
        return _overlaid(self.settings, self.scales[scale].get("settings", {}))

    def datasets_at(self, scale: str) -> tuple[str, ...]:
        return tuple(self.scales[scale].get("datasets", self.datasets))

    def uses_at(self, scale: str) -> tuple[str, ...]:
        """The artifacts whose tables it needs; a scale may need others."""
        return tuple(self.scales[scale].get("uses", self.uses))

    def split_at(self, scale: str) -> tuple[str, ...]:
        """The settings that are cut into jobs; a scale of small jobs may cut less."""
        return tuple(self.scales[scale].get("split", self.split))

    def tile_jobs_at(self, scale: str) -> tuple[str, ...]:
        """The kinds of kernels whose Gram matrices are computed tile by tile, one job per tile."""
        return tuple(self.scales[scale].get("tile_jobs", ()))

    def note_at(self, scale: str) -> str:
        return str(self.scales[scale].get("note", ""))

    def parts_at(self, scale: str) -> dict[str, dict[str, Any]]:
        """The independent jobs of one scale: a part's name and its settings.

        The settings named in `split` (the scale's own, where it has one) hold lists; each part gets one element of
        each, again as a list, so that the study function sees the same kind of settings whether split or whole.
        """
        settings = self.settings_at(scale)
        split = self.split_at(scale)
        if not split:
            return {"all": settings}
        axes = [settings[key] for key in split]
        return {
            "-".join(f"{key}={slug(choice)}" for key, choice in zip(split, choices, strict=True)): {
                **settings,
                **{key: [choice] for key, choice in zip(split, choices, strict=True)},
            }
            for choices in itertools.product(*axes)
        }

    def part_settings(self, scale: str, part: str) -> dict[str, Any]:
        """The settings of one part; a part that the catalogue does not make is an error."""
        parts = self.parts_at(scale)
        if part not in parts:
            raise UnknownName(f"part of {self.name} at scale {scale}", part, parts)
        return parts[part]


def _overlaid(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(settings)
    for key, value in changes.items():
        below = settings.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            value = _overlaid(below, value)
        merged[key] = value
    return merged


def slug(value: Any) -> str:
    """A setting's value as a piece of a file name."""
    return "".join(letter if letter.isalnum() or letter in "._+" else "_" for letter in str(value))


@dataclass(frozen=True)
class Study:
    name: str
    title: str
    summary: str
    paper: Mapping[str, Any]
    artifacts: Mapping[str, Artifact]


@dataclass(frozen=True)
class Catalogue:
    studies: Mapping[str, Study]

    def __iter__(self) -> Iterator[Artifact]:
        for study in self.studies.values():
            yield from study.artifacts.values()

    @cached_property
    def by_name(self) -> dict[str, Artifact]:
        return {artifact.name: artifact for artifact in self}

    def artifact(self, name: str) -> Artifact:
        if name not in self.by_name:
            raise UnknownName("artifact", name, self.by_name, "`tangentbench list` shows all")
        return self.by_name[name]

    def used_by(self, artifact: Artifact, scale: str) -> list[Artifact]:
        """The artifacts whose tables it needs."""
        return [self.artifact(name) for name in artifact.uses_at(scale)]

    def with_used(self, artifacts: Iterable[Artifact], scale: str) -> list[Artifact]:
        """Also what they need, and what that needs, in catalogue order."""
        found: set[str] = set()
        waiting = list(artifacts)
        while waiting:
            artifact = waiting.pop()
            if artifact.name not in found:
                found.add(artifact.name)
                waiting += self.used_by(artifact, scale)
        return [artifact for artifact in self if artifact.name in found]

    def select(self, targets: list[str] | tuple[str, ...]) -> list[Artifact]:
        """The artifacts that `targets` (artifacts, studies or `all`) name, in catalogue order."""
        chosen: set[str] = set()
        for target in targets:
            if target == "all":
                chosen.update(self.by_name)
            elif target in self.studies:
                chosen.update(self.studies[target].artifacts)
            elif target in self.by_name:
                chosen.add(target)
            else:
                names = ["all", *self.studies, *self.by_name]
                raise UnknownName("target", target, names, "`tangentbench list` shows all")
        return [artifact for artifact in self if artifact.name in chosen]


def require_scale(scale: str) -> str:
    if scale not in SCALES:
        raise UnknownName("scale", scale, SCALES)
    return scale


def load_catalogue(paths: Paths) -> Catalogue:
    """Read and check every study of the catalogue."""
    studies = {}
    for file in sorted(paths.studies.glob("*/catalogue.yaml")):
        study = load_study(file, paths.schemas / "catalogue.schema.json")
        studies[study.name] = study
    if not studies:
        raise InvalidConfig(paths.studies, "", "there is no study here: restore it with `git checkout`")
    catalogue = Catalogue(studies)
    check_references(catalogue, paths)
    return catalogue


def load_study(file: Path, schema: Path) -> Study:
    raw = load_checked(file, schema)
    name = raw["study"]
    if name != file.parent.name:
        raise InvalidConfig(file, "study", f"the study is called '{name}' but its folder '{file.parent.name}'")
    notes = load_notes(file.with_name("notes.md"), raw["artifacts"])
    artifacts = {
        key: make_artifact(file, name, key, {**entry, "notes": notes.get(key, "")})
        for key, entry in raw["artifacts"].items()
    }
    return Study(name, raw["title"], raw.get("summary", ""), raw["paper"], artifacts)


def load_notes(file: Path, artifacts: Iterable[str]) -> dict[str, str]:
    """The notes of each artifact, one line per paragraph: the sections of notes.md headed `## ARTIFACT`."""
    if not file.is_file():
        return {}
    notes = {}
    for section in re.split(r"^## ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        if heading.strip() not in artifacts:
            raise InvalidConfig(file, f"## {heading.strip()}", "no artifact of this study has this name")
        paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
        notes[heading.strip()] = "\n".join(paragraph for paragraph in paragraphs if paragraph)
    return notes


def make_artifact(file: Path, study: str, name: str, entry: Mapping[str, Any]) -> Artifact:
    if not name.startswith(f"{study}_"):
        raise InvalidConfig(file, f"artifacts.{name}", f"an artifact of this study is called {study}_...")
    entry = dict(entry)
    artifact = Artifact(
        name=name,
        study=study,
        datasets=tuple(entry.pop("datasets", ())),
        uses=tuple(entry.pop("uses", ())),
        split=tuple(entry.pop("split", ())),
        paper_values=tuple(PaperValue(**value) for value in entry.pop("paper_values", ())),
        claims=(),
        **{key: value for key, value in entry.items() if key != "claims"},
    )
    claims = tuple(make_claim(file, artifact, claim) for claim in entry.get("claims", ()))
    artifact = replace(artifact, claims=claims)
    for scale in SCALES:
        for key in artifact.split_at(scale):
            if not isinstance(artifact.settings_at(scale).get(key), list):
                reason = f"'{key}' is named in split but is no list at scale {scale}"
                raise InvalidConfig(file, f"artifacts.{name}.split", reason)
            _check_part_names(file, artifact, key, artifact.settings_at(scale)[key])
    return artifact


def _check_part_names(file: Path, artifact: Artifact, key: str, values: Iterable[Any]) -> None:
    """Two values with one file name would be one part: the other would vanish."""
    seen: dict[str, Any] = {}
    for value in values:
        if (name := slug(value)) in seen:
            reason = f"{seen[name]!r} and {value!r} of '{key}' would both be the part {key}={name}: change one of them"
            raise InvalidConfig(file, f"artifacts.{artifact.name}.split", reason)
        seen[name] = value


def make_claim(file: Path, artifact: Artifact, entry: Mapping[str, Any]) -> Claim:
    claim = _near(file, artifact, entry)
    if claim.get("measure") is None:
        where = f"artifacts.{artifact.name}.claims.{claim['name']}"
        raise InvalidConfig(file, where, "a claim needs a measure: say which number of the table it is about")
    expected = claim["expected"]
    low_high = (float(expected[0]), float(expected[1])) if isinstance(expected, list) else expected
    return Claim(artifact=artifact.name, **{**claim, "expected": low_high})


def _near(file: Path, artifact: Artifact, entry: Mapping[str, Any]) -> dict[str, Any]:
    """A claim about a number the paper prints, with that number filled in from the artifact's `paper_values`.

    `near: {printed: LABEL, within: 0.5}` claims that ours is equal to the printed value labelled LABEL within 0.5.
    `expected: {printed: LABEL}` takes the bound of another comparison (`at_least`, `at_most`) from it. The measure is
    the printed value's own unless the claim gives one. The statement may name `{printed}`, `{within}`, `{low}` and
    `{high}`, each with a format such as `{printed:.2f}`.
    """
    claim = dict(entry)
    if "near" in claim:
        near = claim.pop("near")
        label = near["printed"]
        claim |= {"compare": "equal", "tolerance": near["within"]}
    elif isinstance(claim.get("expected"), dict):
        label = claim["expected"]["printed"]
    else:
        return claim
    where = f"artifacts.{artifact.name}.claims.{claim['name']}"
    printed = next((value for value in artifact.paper_values if value.label == label), None)
    if printed is None:
        known = ", ".join(repr(value.label) for value in artifact.paper_values)
        raise InvalidConfig(file, where, f"no entry of paper_values is labelled '{label}' (there are: {known})")
    claim["expected"] = printed.value
    claim.setdefault("measure", printed.measure)
    within = claim.get("tolerance", 0.0)
    # Twelve digits: 97.1 - 0.5 is written 96.6, not 96.60000000000001.
    low, high = (float(f"{bound:.12g}") for bound in (printed.value - within, printed.value + within))
    try:
        claim["statement"] = claim["statement"].format(printed=printed.value, within=within, low=low, high=high)
    except (KeyError, IndexError, ValueError) as error:
        reason = f"its statement can name {{printed}}, {{within}}, {{low}} and {{high}} in braces, not {error}"
        raise InvalidConfig(file, where, reason) from None
    return claim


def check_references(catalogue: Catalogue, paths: Paths) -> None:
    """Names that must be unique or must exist across the files."""
    seen: dict[str, str] = {}
    for artifact in catalogue:
        file = paths.study_catalogue(artifact.study)
        for used in {name for scale in SCALES for name in artifact.uses_at(scale)}:
            if used not in catalogue.by_name:
                raise InvalidConfig(file, f"artifacts.{artifact.name}.uses", f"there is no artifact '{used}'")
        for claim in artifact.claims:
            if claim.name in seen:
                reason = f"{seen[claim.name]} has a claim '{claim.name}' too: rename one"
                raise InvalidConfig(file, f"artifacts.{artifact.name}.claims", reason)
            seen[claim.name] = artifact.name
