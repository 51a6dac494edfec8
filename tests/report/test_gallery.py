from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from tiny_project import HOSTILE, TinyProject

from tangentbench.atomic import read_json, write_json
from tangentbench.errors import ResultUnreadable, UnknownName
from tangentbench.report.gallery import render, write_gallery
from tangentbench.suite import table_io


class Page(HTMLParser):
    """Every element with its attributes, and all text outside scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside not in ("script", "style"):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def links(self) -> list[str]:
        return [str(found[key]) for _, found in self.elements for key in ("href", "src") if key in found]

    def cards(self) -> dict[str, dict[str, str | None]]:
        return {str(found["id"]): found for found in self.all("article")}


def page_of(project: TinyProject, scale: str = "quick") -> Page:
    return Page(render(project.catalogue, project.paths, scale))


def test_hostile_text_stays_text(built: TinyProject) -> None:
    html = render(built.catalogue, built.paths, "quick")
    page = Page(html)
    assert len(page.all("script")) == 1
    assert not any(page.all(tag) for tag in ("b", "i", "em", "u"))
    assert f"Loss against width {HOSTILE}" in page.text
    assert "A paper <b>bold</b>" in page.text
    assert "<u>cell</u>" in page.text
    assert HOSTILE not in html


def test_an_address_that_is_no_web_page_is_no_link(built: TinyProject) -> None:
    links = page_of(built).links()
    assert not any(link.startswith("javascript") for link in links)
    assert "https://example.org/beta" in links


def test_every_relative_link_leads_to_a_file(built: TinyProject) -> None:
    page = Page(write_gallery(built.catalogue, built.paths, "quick").read_text(encoding="utf-8"))
    links = [link for link in page.links() if not link.startswith(("#", "https://", "data:"))]
    folder = built.paths.scale("quick")
    assert all((folder / link).is_file() for link in links)
    assert {f"alpha/alpha_fig1.{kind}" for kind in ("pdf", "png", "csv", "parquet", "json")} == set(links)


def test_every_anchor_has_its_place(built: TinyProject) -> None:
    page = page_of(built)
    places = {found["id"] for _, found in page.elements if "id" in found}
    anchors = [link[1:] for link in page.links() if link.startswith("#") and "=" not in link]
    assert anchors and set(anchors) <= places
    named = [found[key] for _, found in page.elements for key in ("aria-labelledby", "aria-controls") if key in found]
    assert set(named) <= places


def test_ids_are_unique(built: TinyProject) -> None:
    found = [attributes["id"] for _, attributes in page_of(built).elements if "id" in attributes]
    assert len(found) == len(set(found))


def test_nothing_is_fetched_from_the_network(built: TinyProject) -> None:
    html = render(built.catalogue, built.paths, "quick")
    page = Page(html)
    assert not any("src" in script for script in page.all("script"))
    assert all(str(link["href"]).startswith("data:") for link in page.all("link"))
    assert not any(str(image["src"]).startswith(("http", "//")) for image in page.all("img"))
    assert not re.search(r"@import|url\(", html)


def test_header_counts_the_claims_and_names_the_scale(built: TinyProject) -> None:
    page = page_of(built)
    tiles = {str(a["href"]): a["data-count"] for a in page.all("a") if "tile" in str(a.get("class"))}
    assert tiles == {"#state=held": "1", "#state=failed": "1", "#state=not-testable": "1", "#state=not-run": "1"}
    words = " ".join(page.text.split())
    assert "1 built of 2 in the catalogue" in words
    assert "quick: embedded data" in words
    assert "1 claim failed" in words


def test_cards_carry_what_the_filter_needs(built: TinyProject) -> None:
    cards = page_of(built).cards()
    assert list(cards) == ["alpha_fig1", "beta_constants"]
    assert str(cards["alpha_fig1"]["data-state"]).split() == ["held", "failed", "not-testable"]
    assert cards["beta_constants"]["data-kind"] == "theory"
    assert "has-failure" in str(cards["alpha_fig1"]["class"])


def test_picture_has_size_and_words(built: TinyProject) -> None:
    (image,) = page_of(built).all("img")
    assert (image["width"], image["height"]) == ("400", "300")
    assert image["loading"] == "lazy"
    assert str(image["alt"]).endswith("The loss falls with width.")


def test_claims_numbers_notes_and_provenance_are_there(built: TinyProject) -> None:
    words = " ".join(page_of(built).text.split())
    assert "measured 2.10 ± 0.25 (3 runs), expected ≤ 1" in words
    assert "loss at 10 (nats) 2.05 ± 0.10 2.10 ± 0.10 +0.05" in words
    assert "loss at 999 0.5 – – – : not measured at this scale" in words
    assert "zanzibar" in words
    assert "6 rows, 4 columns" in words
    assert "At scale quick: Three runs & two widths." in words
    assert "none: not run from a git checkout" in words
    assert "ours, not in the paper" in words


@pytest.mark.parametrize(
    ("scale", "seed", "command"),
    [
        ("quick", 0, "snakemake --cores 2 alpha_fig1"),
        ("quick", 4, "snakemake --cores 2 alpha_fig1 --config seed=4"),
        ("cpu", 0, "snakemake --cores 2 alpha_fig1 --config scale=cpu"),
    ],
)
def test_command_rebuilds_what_stands_here(tiny: TinyProject, scale: str, seed: int, command: str) -> None:
    tiny.build(seed)
    copies = [button["data-copy"] for button in page_of(tiny, scale).all("button") if "data-copy" in button]
    assert copies[0] == command


@pytest.mark.parametrize(
    ("commit", "dirty", "text"),
    [
        ("a" * 40, False, "aaaaaaaaaa"),
        ("a" * 40, True, "aaaaaaaaaa with uncommitted changes"),
        (["a" * 40, None], False, "aaaaaaaaaa"),
        (["a" * 40, "b" * 40], False, "aaaaaaaaaa, bbbbbbbbbb"),
    ],
)
def test_header_names_the_commits_behind_the_results(
    built: TinyProject, commit: str | list[str], dirty: bool, text: str
) -> None:
    file = built.paths.provenance("quick", "alpha", "alpha_fig1")
    write_json(file, {**read_json(file), "commit": commit, "dirty": dirty})
    other = built.paths.provenance("quick", "beta", "beta_constants")
    write_json(other, {**read_json(file), "commit": "a" * 40})
    assert f"<dt>Commit</dt><dd><code>{text}</code></dd>" in render(built.catalogue, built.paths, "quick")


def test_what_was_not_built_says_so(tiny: TinyProject) -> None:
    page = page_of(tiny)
    assert page.text.count("Not built at this scale") == 2
    assert not page.all("img")
    assert "0 built of 2" in " ".join(page.text.split())


def test_same_results_same_page(built: TinyProject) -> None:
    first, second = (render(built.catalogue, built.paths, "quick") for _ in range(2))
    assert first == second


def test_page_holds_no_path_of_the_machine(built: TinyProject) -> None:
    assert str(built.paths.root) not in render(built.catalogue, built.paths, "quick")


@pytest.mark.parametrize("kind", ["png", "json", "parquet"])
def test_a_damaged_file_is_named_and_no_page_is_written(built: TinyProject, kind: str) -> None:
    built.paths.figure("quick", "alpha", "alpha_fig1", kind).write_bytes(b"{half")
    with pytest.raises(ResultUnreadable, match=rf"alpha_fig1\.{kind}"):
        write_gallery(built.catalogue, built.paths, "quick")
    assert not built.paths.gallery("quick").exists()


def test_unknown_scale(tiny: TinyProject) -> None:
    with pytest.raises(UnknownName, match="scale"):
        render(tiny.catalogue, tiny.paths, "huge")


def test_the_page_shows_the_verdicts_of_claims_json_and_decides_nothing(built: TinyProject) -> None:
    file = built.paths.claims("quick", "alpha")
    records = read_json(file)
    records["alpha_small"].update(state="held", measured=0.125, half_width=0.0, seeds=1)
    write_json(file, records)
    page = page_of(built)
    tiles = {str(a["href"]): a["data-count"] for a in page.all("a") if "tile" in str(a.get("class"))}
    assert (tiles["#state=held"], tiles["#state=failed"]) == ("2", "0")
    assert "0.125" in page.text


def test_a_claim_without_a_verdict_is_named_with_its_file(built: TinyProject) -> None:
    file = built.paths.claims("quick", "alpha")
    write_json(file, {name: record for name, record in read_json(file).items() if name != "alpha_small"})
    with pytest.raises(ResultUnreadable, match=r"alpha/claims\.json.*alpha_small.*delete it and run again"):
        render(built.catalogue, built.paths, "quick")


def test_a_table_is_read_once(built: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    original = table_io.read_table
    monkeypatch.setattr(table_io, "read_table", lambda path: read.append(path) or original(path))  # type: ignore[func-returns-value]
    render(built.catalogue, built.paths, "quick")
    assert read == [built.paths.table("quick", "alpha", "alpha_fig1")]
