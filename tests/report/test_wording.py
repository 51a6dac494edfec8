from __future__ import annotations

from typing import Any

import pytest

from tangentbench.claims.decision import Verdict
from tangentbench.report.comparison import ComparisonRow
from tangentbench.report.wording import (
    cell,
    difference_cell,
    expected,
    first_sentence,
    measured,
    number,
    our_cell,
    paper_cell,
    paragraphs,
    plus_minus,
    setting,
)
from tangentbench.suite.catalogue import Claim


def claim(**changes: Any) -> Claim:
    given = {"name": "c", "artifact": "a", "statement": "s", "scale": "quick", "measure": {}}
    return Claim(**{**given, "compare": "equal", "expected": 8.0, **changes})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0156, "0.0156"),
        (-3.0, "−3"),
        (0.0, "0"),
        (8.0, "8"),
        (5e9, "5×10⁹"),
        (-2.5e-7, "−2.5×10⁻⁷"),
        (999999.0, "999999"),
        (float("nan"), "nan"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (64.8623, 0.312, "64.86 ± 0.31"),
        (64.8623, None, "64.8623"),
        (64.8623, 0.0, "64.8623"),
        (8.2, 12.4, "8 ± 12"),
        (1e-9, 2e-10, "1×10⁻⁹ ± 2×10⁻¹⁰"),
    ],
)
def test_plus_minus(value: float, spread: float | None, text: str) -> None:
    assert plus_minus(value, spread) == text


@pytest.mark.parametrize(
    ("compare", "bound", "tolerance", "text"),
    [
        ("equal", 8.0, 1.0, "8 ± 1"),
        ("equal", 18.0, 0.0, "18"),
        ("at_most", 0.5, 0.01, "≤ 0.5 + 0.01"),
        ("at_least", 0.5, 0.01, "≥ 0.5 − 0.01"),
        ("between", (6.0, 10.0), 0.0, "6 to 10"),
        ("between", (6.0, 10.0), 0.5, "6 to 10 (± 0.5)"),
    ],
)
def test_expected(compare: str, bound: float, tolerance: float, text: str) -> None:
    assert expected(claim(compare=compare, expected=bound, tolerance=tolerance)) == text


def test_measured() -> None:
    assert measured(Verdict(claim(), "quick", "held", "", 8.2, 0.45, 10)) == "8.20 ± 0.45 (10 runs)"
    assert measured(Verdict(claim(), "quick", "held", "", 8.2, 0.0, 1)) == "8.2"
    assert measured(Verdict(claim(), "quick", "not run", "")) == "–"


def test_ours_has_the_decimals_its_spread_allows() -> None:
    row = ComparisonRow("x", "%", 95.85, 0.1, ours=96.01234, ours_spread=0.213, seeds=5)
    assert (paper_cell(row), our_cell(row), difference_cell(row)) == ("95.85 ± 0.10", "96.01 ± 0.21", "+0.16")


def test_a_single_number_has_one_digit_more_than_the_paper() -> None:
    row = ComparisonRow("x", "", 0.0798, None, ours=0.0797881, seeds=1)
    assert (paper_cell(row), our_cell(row), difference_cell(row)) == ("0.0798", "0.07979", "−1.19×10⁻⁵")


def test_no_number_of_ours_is_a_dash() -> None:
    row = ComparisonRow("x", "", 5e9, None)
    assert (paper_cell(row), our_cell(row), difference_cell(row)) == ("5×10⁹", "–", "–")


def test_an_exact_match_differs_by_zero() -> None:
    row = ComparisonRow("x", "", 18.0, None, ours=18.0, seeds=1)
    assert (paper_cell(row), our_cell(row), difference_cell(row)) == ("18", "18", "0")


def test_closed_forms_are_not_printed_to_the_last_bit() -> None:
    row = ComparisonRow("x", "", 0.26652889653786996, None, ours=0.26652889653787001, seeds=1)
    assert (paper_cell(row), our_cell(row)) == ("0.266529", "0.266529")


def test_paragraphs_know_blank_lines_and_backticks_only() -> None:
    html = str(paragraphs("One `a<b` & two.\nStill one.\n\n\n <script>x</script> **not bold**\n"))
    assert html == (
        "<p>One <code>a&lt;b</code> &amp; two.\nStill one.</p>\n<p>&lt;script&gt;x&lt;/script&gt; **not bold**</p>"
    )


def test_first_sentence() -> None:
    assert first_sentence("The `loss`\nfalls. Then it rises.") == "The loss falls."


def test_cells_and_settings() -> None:
    assert [cell(value) for value in (True, 3, 0.1 + 0.2, float("nan"), None, "x")] == [
        "yes",
        "3",
        "0.3",
        "–",
        "–",
        "x",
    ]
    assert setting({"widths": [25, 500], "mirror": None}) == "widths 25, 500, mirror none"
