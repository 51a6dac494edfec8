"""The catalogue as it stands, and what a mistake in it says: file, key and reason."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tangentbench.config import SCALES
from tangentbench.errors import InvalidConfig, UnknownName
from tangentbench.paths import Paths
from tangentbench.suite.catalogue import Artifact, Catalogue, load_catalogue, require_scale

ROOT = Path(__file__).resolve().parents[2]
LISTED = {
    "npk": "fig1 table2 fig3a fig3b fig3c theorem5_1 fig5 fig6",
    "conditioning": "table_mu fig1 fig2 fig3 fig4 fig5 fig6 fig7 fig8 theorem3 theorem5",
    "cntk": "table1 table2 convergence",
    "bounds": "fig6_1 fig6_2 fig6_3 fig6_4 fig6_5 fig6_6 fig6_7 figD_1 figD_2",
    "survey": "fig2_5 fig2_6 fig2_7 fig2_8",
    "tensor_programs": "figA_1 figA_2 figA_3 figA_4 figA_5 figA_6 figA_7",
    "regularised": "fig5_1 fig5_2",
}
NAMES = [f"{study}_{name}" for study, names in LISTED.items() for name in names.split()]
DATASETS = yaml.safe_load(Paths(ROOT).datasets.read_text(encoding="utf-8"))["datasets"]
CATALOGUE = load_catalogue(Paths(ROOT))
ARTIFACTS = pytest.mark.parametrize("artifact", list(CATALOGUE), ids=lambda artifact: artifact.name)


def test_every_table_and_figure_of_the_papers_is_listed() -> None:
    of_the_papers = [artifact.name for artifact in CATALOGUE if artifact.origin == "paper"]
    assert len(NAMES) == 44
    assert set(CATALOGUE.studies) >= set(LISTED)
    assert set(of_the_papers) >= set(NAMES)


@ARTIFACTS
def test_an_artifact_can_be_split_into_jobs_at_every_scale(artifact: Artifact) -> None:
    assert set(artifact.scales) == set(SCALES)
    for scale in SCALES:
        parts = artifact.parts_at(scale)
        assert parts
        for settings in parts.values():
            assert settings.keys() == artifact.settings_at(scale).keys()


@ARTIFACTS
def test_data_sets_named_are_data_sets_there_are(artifact: Artifact) -> None:
    for scale in SCALES:
        assert set(artifact.datasets_at(scale)) <= set(DATASETS)


@ARTIFACTS
def test_scale_quick_needs_no_network(artifact: Artifact) -> None:
    embedded = ("mnist5k", "photographs", "sphere_pairs", "teacher")
    assert all(name.startswith(embedded) for name in artifact.datasets_at("quick"))


@ARTIFACTS
def test_a_claim_has_its_artifact_and_a_sentence(artifact: Artifact) -> None:
    assert artifact.claims
    for claim in artifact.claims:
        assert claim.artifact == artifact.name
        assert claim.statement.endswith(".")


@ARTIFACTS
def test_the_caption_is_a_short_text(artifact: Artifact) -> None:
    assert artifact.caption.endswith(".")
    assert 60 <= len(artifact.caption) <= 700


@ARTIFACTS
def test_printed_numbers_have_one_of_ours_beside_them(artifact: Artifact) -> None:
    for value in artifact.paper_values:
        assert value.measure is not None


DEMO: dict[str, Any] = {
    "study": "demo",
    "title": "A demonstration",
    "paper": {"title": "A paper", "authors": "A. Author", "year": 2020},
    "artifacts": {
        "demo_fig1": {
            "title": "The first",
            "kind": "figure",
            "reference": "Figure 1",
            "caption": "It shows something.",
            "settings": {"widths": [25, 500], "laws": ["a b", "c"], "runs": 10},
            "split": ["widths", "laws"],
            "scales": {
                "quick": {"settings": {"runs": 2, "widths": [25]}, "datasets": ["mnist5k"], "note": "Few runs."},
                "cpu": {},
                "paper": {},
            },
            "datasets": ["mnist"],
            "claims": [
                {
                    "name": "demo_small",
                    "statement": "It is small.",
                    "scale": "quick",
                    "measure": {"reduce": "mean"},
                    "compare": "between",
                    "expected": [0, 1],
                }
            ],
        },
        "demo_fig2": {
            "title": "The second",
            "kind": "theory",
            "reference": "Theorem 2",
            "caption": "It shows something else.",
            "uses": ["demo_fig1"],
            "scales": {"quick": {}, "cpu": {}, "paper": {}},
            "claims": [
                {
                    "name": "demo_large",
                    "statement": "It is large.",
                    "scale": "cpu",
                    "measure": {"reduce": "max"},
                    "compare": "at_least",
                    "expected": 100,
                }
            ],
        },
    },
}
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path)
    shutil.copytree(ROOT / "config" / "schemas", paths.schemas)
    paths.study_catalogue("demo").parent.mkdir(parents=True)
    return paths


def loaded(paths: Paths, change: Change | None = None) -> Catalogue:
    """The demonstration study, changed, written and read back."""
    raw = yaml.safe_load(yaml.safe_dump(DEMO))
    if change is not None:
        change(raw)
    (paths.study_catalogue("demo")).write_text(yaml.safe_dump(raw), encoding="utf-8")
    return load_catalogue(paths)


def first(raw: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = raw["artifacts"]["demo_fig1"]
    return entry


def test_a_scale_can_use_other_tables_and_be_split_otherwise(paths: Paths) -> None:
    def change(raw: dict[str, Any]) -> None:
        first(raw)["scales"]["quick"].update(uses=["demo_fig2"], split=["laws"])

    artifact = loaded(paths, change).artifact("demo_fig1")
    assert artifact.uses_at("quick") == ("demo_fig2",) and artifact.uses_at("cpu") == ()
    assert list(artifact.parts_at("quick")) == ["laws=a_b", "laws=c"]
    assert len(artifact.parts_at("cpu")) == 4


MISTAKES: dict[str, tuple[Change, str, str]] = {
    "bad kind": (
        lambda raw: first(raw).update(kind="picture"),
        "artifacts.demo_fig1.kind",
        "'picture' is not one of",
    ),
    "unknown key": (
        lambda raw: first(raw).update(captoin="It shows something."),
        "artifacts.demo_fig1",
        "unknown key captoin (allowed: caption,",
    ),
    "unknown key at the top": (
        lambda raw: raw.update(pictures={}),
        "the top level",
        "unknown key pictures",
    ),
    "missing key": (
        lambda raw: first(raw).pop("reference"),
        "artifacts.demo_fig1",
        "'reference' is a required property",
    ),
    "missing scale": (
        lambda raw: first(raw)["scales"].pop("cpu"),
        "artifacts.demo_fig1.scales",
        "'cpu' is a required property",
    ),
    "claim without expected": (
        lambda raw: first(raw)["claims"][0].pop("expected"),
        "artifacts.demo_fig1.claims.0",
        "'expected' is a required property",
    ),
    "region for a comparison with one number": (
        lambda raw: first(raw)["claims"][0].update(compare="at_most"),
        "artifacts.demo_fig1.claims.0.expected",
        "is not of type 'number'",
    ),
    "claim without measure": (
        lambda raw: first(raw)["claims"][0].pop("measure"),
        "artifacts.demo_fig1.claims.demo_small",
        "a claim needs a measure",
    ),
    "claim that compares with nothing": (
        lambda raw: [first(raw)["claims"][0].pop(key) for key in ("compare", "expected")],
        "artifacts.demo_fig1.claims.0",
        "is a required property",
    ),
    "a scale's split naming no list": (
        lambda raw: first(raw)["scales"]["cpu"].update(split=["runs"]),
        "artifacts.demo_fig1.split",
        "'runs' is named in split but is no list at scale cpu",
    ),
    "a scale using what is not there": (
        lambda raw: first(raw)["scales"]["cpu"].update(uses=["demo_fig9"]),
        "artifacts.demo_fig1.uses",
        "there is no artifact 'demo_fig9'",
    ),
    "split naming no list": (
        lambda raw: first(raw).update(split=["runs"]),
        "artifacts.demo_fig1.split",
        "'runs' is named in split but is no list at scale quick",
    ),
    "split naming no setting": (
        lambda raw: first(raw).update(split=["depths"]),
        "artifacts.demo_fig1.split",
        "'depths' is named in split but is no list",
    ),
    "uses of an unknown artifact": (
        lambda raw: raw["artifacts"]["demo_fig2"].update(uses=["demo_fig3"]),
        "artifacts.demo_fig2.uses",
        "there is no artifact 'demo_fig3'",
    ),
    "claim named twice": (
        lambda raw: raw["artifacts"]["demo_fig2"]["claims"][0].update(name="demo_small"),
        "artifacts.demo_fig2.claims",
        "demo_fig1 has a claim 'demo_small' too: rename one",
    ),
    "artifact of another study": (
        lambda raw: raw["artifacts"].update(other_fig1=raw["artifacts"].pop("demo_fig2")),
        "artifacts.other_fig1",
        "an artifact of this study is called demo_...",
    ),
    "study of another name": (
        lambda raw: raw.update(study="demos"),
        "study",
        "the study is called 'demos' but its folder 'demo'",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_file_key_and_reason(paths: Paths, mistake: str) -> None:
    change, key, reason = MISTAKES[mistake]
    with pytest.raises(InvalidConfig) as caught:
        loaded(paths, change)
    assert caught.value.file == str(paths.study_catalogue("demo"))
    assert caught.value.key == key
    assert reason in caught.value.reason
    message = str(caught.value)
    assert message.startswith(f"{paths.study_catalogue('demo')} at {key}: ")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("study: demo\ntitle: A\ntitle: B\n", "line 3, column 1", "duplicate key 'title'"),
        ("study: demo\nartifacts: [unclosed\n", "line 3, column 1", "it is not valid YAML"),
        ("study: demo\n\ttitle: tab\n", "line 2, column 1", "it is not valid YAML"),
        ("", "the top level", "is not of type 'object'"),
    ],
    ids=["key twice", "bracket left open", "tab", "empty"],
)
def test_text_that_is_no_catalogue_is_told_with_its_place(paths: Paths, text: str, place: str, reason: str) -> None:
    (paths.study_catalogue("demo")).write_text(text, encoding="utf-8")
    with pytest.raises(InvalidConfig) as caught:
        load_catalogue(paths)
    assert caught.value.file == str(paths.study_catalogue("demo"))
    assert caught.value.key == place
    assert reason in caught.value.reason


def test_bytes_that_are_no_text_are_told(paths: Paths) -> None:
    (paths.study_catalogue("demo")).write_bytes(b"study: \xff\xfe\n")
    with pytest.raises(InvalidConfig, match="not UTF-8"):
        load_catalogue(paths)


def test_an_artifact_given_twice_is_not_silently_overwritten(paths: Paths) -> None:
    loaded(paths)
    file = paths.study_catalogue("demo")
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("  demo_fig2:", "  demo_fig1:"), encoding="utf-8")
    with pytest.raises(InvalidConfig, match="duplicate key 'demo_fig1'"):
        load_catalogue(paths)


def test_a_catalogue_without_studies_says_how_to_get_it_back(paths: Paths) -> None:
    with pytest.raises(InvalidConfig, match="there is no study here: restore it with `git checkout`"):
        load_catalogue(paths)


def test_the_settings_of_a_scale_lie_on_top_of_the_common_ones(paths: Paths) -> None:
    artifact = loaded(paths).artifact("demo_fig1")
    assert artifact.settings_at("quick") == {"widths": [25], "laws": ["a b", "c"], "runs": 2}
    assert artifact.settings_at("paper") == {"widths": [25, 500], "laws": ["a b", "c"], "runs": 10}
    assert artifact.datasets_at("quick") == ("mnist5k",)
    assert artifact.datasets_at("cpu") == ("mnist",)
    assert (artifact.note_at("quick"), artifact.note_at("cpu")) == ("Few runs.", "")


def test_a_scale_changes_single_settings_of_a_group(paths: Paths) -> None:
    def group(raw: dict[str, Any]) -> None:
        first(raw)["settings"]["images"] = {"train": 100, "shape": {"side": 32, "channels": 3}}
        first(raw)["scales"]["quick"]["settings"]["images"] = {"shape": {"side": 8}}

    artifact = loaded(paths, group).artifact("demo_fig1")
    assert artifact.settings_at("quick")["images"] == {"train": 100, "shape": {"side": 8, "channels": 3}}
    assert artifact.settings_at("paper")["images"] == {"train": 100, "shape": {"side": 32, "channels": 3}}


def test_parts_are_all_choices_of_the_split_settings(paths: Paths) -> None:
    artifact = loaded(paths).artifact("demo_fig1")
    parts = artifact.parts_at("cpu")
    assert list(parts) == [
        "widths=25-laws=a_b",
        "widths=25-laws=c",
        "widths=500-laws=a_b",
        "widths=500-laws=c",
    ]
    assert parts["widths=500-laws=a_b"] == {"widths": [500], "laws": ["a b"], "runs": 10}
    assert list(artifact.parts_at("quick")) == ["widths=25-laws=a_b", "widths=25-laws=c"]


def test_an_artifact_that_is_not_split_is_one_part(paths: Paths) -> None:
    artifact = loaded(paths, lambda raw: first(raw).pop("split")).artifact("demo_fig1")
    assert artifact.parts_at("cpu") == {"all": artifact.settings_at("cpu")}


def test_a_claims_region_is_a_pair_of_numbers(paths: Paths) -> None:
    (claim,) = loaded(paths).artifact("demo_fig1").claims
    assert claim.expected == (0.0, 1.0)
    assert claim.artifact == "demo_fig1"


def test_select_takes_artifacts_studies_and_all_in_catalogue_order() -> None:
    def names(*targets: str) -> list[str]:
        return [artifact.name for artifact in CATALOGUE.select(targets)]

    in_order = [artifact.name for artifact in CATALOGUE]
    assert names("all") == in_order
    assert names("cntk") == list(CATALOGUE.studies["cntk"].artifacts)
    assert names("npk_fig6", "cntk_table1", "npk_fig6", "cntk") == [*names("cntk"), "npk_fig6"]
    assert names() == []


@pytest.mark.parametrize(
    ("ask", "kind", "near"),
    [
        (lambda: CATALOGUE.artifact("npk_fig66"), "artifact", "npk_fig6"),
        (lambda: CATALOGUE.select(["conditionning"]), "target", "conditioning"),
        (lambda: CATALOGUE.select(["npk_fig6", "bounds_fig6-3"]), "target", "bounds_fig6_3"),
        (lambda: require_scale("papers"), "scale", "paper"),
    ],
)
def test_an_unknown_name_suggests_near_ones(ask: Callable[[], Any], kind: str, near: str) -> None:
    with pytest.raises(UnknownName, match=f"unknown {kind} .* did you mean .*{near}"):
        ask()


def test_an_unknown_name_like_no_other_lists_what_there_is() -> None:
    with pytest.raises(UnknownName, match="known: cpu, paper, quick"):
        require_scale("zzz")


PRINTED = [{"label": "the loss", "value": 97.1, "measure": {"reduce": "mean"}}]


def with_claim(claim: dict[str, Any]) -> Change:
    def change(raw: dict[str, Any]) -> None:
        first(raw)["paper_values"] = PRINTED
        first(raw)["claims"] = [{"name": "demo_small", "scale": "quick", **claim}]

    return change


def test_a_claim_near_a_printed_value_is_made_from_it(paths: Paths) -> None:
    statement = "Within {within} of the printed {printed:.2f}: {low} to {high}."
    change = with_claim({"statement": statement, "near": {"printed": "the loss", "within": 0.5}})
    (claim,) = loaded(paths, change).artifact("demo_fig1").claims
    assert (claim.compare, claim.expected, claim.tolerance) == ("equal", 97.1, 0.5)
    assert claim.measure == {"reduce": "mean"}
    assert claim.statement == "Within 0.5 of the printed 97.10: 96.6 to 97.6."


def test_a_bound_can_be_a_printed_value(paths: Paths) -> None:
    change = with_claim(
        {"statement": "At most {printed}.", "compare": "at_most", "expected": {"printed": "the loss"}, "tolerance": 1}
    )
    (claim,) = loaded(paths, change).artifact("demo_fig1").claims
    assert (claim.compare, claim.expected, claim.tolerance) == ("at_most", 97.1, 1)


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ({"statement": "It is.", "near": {"printed": "the gain", "within": 1}}, "labelled 'the gain'.*'the loss'"),
        ({"statement": "It is {value}.", "near": {"printed": "the loss", "within": 1}}, "not 'value'"),
    ],
)
def test_a_claim_about_a_number_that_is_not_printed_is_named(paths: Paths, claim: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidConfig, match=f"demo_small.*{words}"):
        loaded(paths, with_claim(claim))
