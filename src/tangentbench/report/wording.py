"""Numbers and captions as the gallery writes them."""

from __future__ import annotations

import math
import re
from typing import Any

from markupsafe import Markup, escape

from tangentbench.claims.decision import Verdict
from tangentbench.report.comparison import ComparisonRow
from tangentbench.suite.catalogue import Claim

MINUS = "−"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LARGE = 1e6
SMALL = 1e-4
DIGITS = 6
POWER_DIGITS = 4
FEWEST_DIGITS = 4

BLANK_LINE = re.compile(r"\n\s*\n")
BACKTICKS = re.compile(r"`([^`]+)`")


def paragraphs(text: str) -> Markup:
    """Plain text as HTML: blank lines part paragraphs, backticks mark code, everything else is escaped."""
    pieces = [piece.strip() for piece in BLANK_LINE.split(text) if piece.strip()]
    return Markup("\n").join(Markup("<p>{}</p>").format(inline(piece)) for piece in pieces)


def inline(text: str) -> Markup:
    """Text of one line, with `code` in backticks."""
    return Markup(BACKTICKS.sub(r"<code>\1</code>", str(escape(text))))


def first_sentence(text: str) -> str:
    line = " ".join(text.replace("`", "").split())
    return re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0]


def number(value: float, digits: int = DIGITS) -> str:
    """`value` to `digits` significant digits without trailing zeros: 0.0156, −3, 5×10⁹."""
    if not math.isfinite(value):
        return str(value)
    if is_extreme(value):
        mantissa, exponent = f"{value:.{min(digits, POWER_DIGITS) - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}×10{str(int(exponent)).translate(SUPERSCRIPTS)}".replace("-", MINUS)
    return f"{value:.{digits}g}".replace("-", MINUS)


def is_extreme(value: float) -> bool:
    return value != 0 and not SMALL <= abs(value) < LARGE


def rounded(value: float, decimals: int) -> str:
    """`value` with a fixed number of decimals, as its spread or the paper's print asks for."""
    return number(value, digits=3) if is_extreme(value) else f"{value:.{decimals}f}".replace("-", MINUS)


def signed(text: str, value: float) -> str:
    return f"+{text}" if value > 0 else text


def decimals_printed(value: float) -> int:
    """How many decimals the paper prints, as far as the number itself still shows it."""
    text = repr(float(value))
    return 0 if "e" in text or text.endswith(".0") else len(text.partition(".")[2])


def digits_printed(value: float) -> int:
    """The significant digits of a printed number."""
    return len(repr(float(value)).partition("e")[0].removesuffix(".0").replace(".", "").lstrip("-0"))


def decimals_of_spread(spread: float) -> int:
    """Decimals that show two digits of a spread."""
    return max(0, 1 - math.floor(math.log10(spread))) if spread > 0 else 0


def plus_minus(value: float, spread: float | None) -> str:
    """A mean with its spread, both to the spread's second digit: 64.86 ± 0.31."""
    if not spread:
        return number(value)
    if is_extreme(value) or is_extreme(spread):
        return f"{number(value)} ± {number(spread, digits=2)}"
    decimals = decimals_of_spread(spread)
    return f"{rounded(value, decimals)} ± {rounded(spread, decimals)}"


def measured(verdict: Verdict) -> str:
    if verdict.measured is None:
        return "–"
    runs = f" ({verdict.seeds} runs)" if verdict.seeds > 1 else ""
    return plus_minus(verdict.measured, verdict.half_width) + runs


def expected(claim: Claim) -> str:
    """What the claim allows, as a formula."""
    tolerance = number(claim.tolerance) if claim.tolerance else ""
    if isinstance(claim.expected, tuple):
        low, high = (number(bound) for bound in claim.expected)
        return f"{low} to {high}" + (f" (± {tolerance})" if tolerance else "")
    return EXPECTED[claim.compare].format(number(claim.expected)) + (
        f" {TOLERANCE_SIGN[claim.compare]} {tolerance}" if tolerance else ""
    )


EXPECTED = {"equal": "{}", "at_most": "≤ {}", "at_least": "≥ {}"}
TOLERANCE_SIGN = {"equal": "±", "at_most": "+", "at_least": MINUS}


def paper_cell(row: ComparisonRow) -> str:
    if row.paper_spread is None:
        return number(row.paper)
    decimals = max(decimals_printed(row.paper), decimals_printed(row.paper_spread))
    return f"{rounded(row.paper, decimals)} ± {rounded(row.paper_spread, decimals)}"


def our_cell(row: ComparisonRow) -> str:
    """Ours to the second digit of its spread; a single number to one digit more than the paper prints."""
    if row.ours is None:
        return "–"
    if row.ours_spread:
        return plus_minus(row.ours, row.ours_spread)
    return number(row.ours, digits=min(max(digits_printed(row.paper) + 1, FEWEST_DIGITS), DIGITS))


def difference_cell(row: ComparisonRow) -> str:
    if row.difference is None:
        return "–"
    if row.ours_spread and not is_extreme(row.ours_spread):
        return signed(rounded(row.difference, decimals_of_spread(row.ours_spread)), row.difference)
    return signed(number(row.difference, digits=3), row.difference)


def duration(seconds: float) -> str:
    if seconds < 0.1:
        return "under 0.1 s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def memory(mib: float) -> str:
    return f"{mib:.0f} MiB" if mib < 1024 else f"{mib / 1024:.1f} GiB"


def cell(value: Any) -> str:
    """One cell of a data table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value).replace("-", MINUS)
    if isinstance(value, float):
        return "–" if math.isnan(value) else number(value)
    return "–" if value is None else str(value)


def setting(value: Any) -> str:
    """A value of a provenance record: lists without brackets, numbers as they were given."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {setting(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(setting(inner) for inner in value)
    return "none" if value is None else str(value)
