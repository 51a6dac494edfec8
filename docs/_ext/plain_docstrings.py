"""Sphinx extension: docstrings written as plain text, shown as they are meant.

Our docstrings are read in an editor far more often than on the site: indented lines are code, `x` is a literal, and
stars, bars and underscores are mathematics. This turns them into reStructuredText before autodoc parses them.
"""

from __future__ import annotations

import re
from typing import Any

LITERAL = re.compile(r"(``[^`]+``|`[^`]+`)")
SPECIAL = re.compile(r"([*|\\])|(?<=\w)(_)(?!\w)")


def escaped(line: str) -> str:
    pieces = LITERAL.split(line)
    return "".join(
        f"``{piece.strip('`')}``" if number % 2 else SPECIAL.sub(r"\\\g<0>", piece)
        for number, piece in enumerate(pieces)
    )


def restructured(lines: list[str]) -> list[str]:
    """Indented runs become literal blocks, other lines paragraphs with their special characters escaped."""
    result: list[str] = []
    in_code = False
    for line in lines:
        indented = line.startswith((" ", "\t"))
        if line.strip() and indented and not in_code:
            result += ["", "::", ""]
            in_code = True
        elif line.strip() and not indented and in_code:
            result.append("")
            in_code = False
        result.append(line if in_code or not line.strip() else escaped(line))
    return result


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = restructured(lines)


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
