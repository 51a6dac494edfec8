"""The README's table of artifacts, written from the catalogue."""

from __future__ import annotations

import re

from tangentbench.suite.catalogue import Catalogue

BEGIN = "<!-- artifacts: written by `make generate` -->"
END = "<!-- end of artifacts -->"


def artifact_table(catalogue: Catalogue) -> str:
    """A summary line, then one Markdown row per artifact."""
    artifacts = list(catalogue)
    lines = [
        f"{len(artifacts)} artifacts.",
        "",
        "| artifact | shows | in the paper |",
        "|---|---|---|",
        *(f"| `{one.name}` | {one.title} | {one.reference} |" for one in artifacts),
    ]
    return "\n".join(lines)


def with_table(readme: str, catalogue: Catalogue) -> str:
    """The README's text with its table renewed."""
    between = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    table = f"{BEGIN}\n{artifact_table(catalogue)}\n{END}"
    return between.sub(lambda _: table, readme, count=1)
