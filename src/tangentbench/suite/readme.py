"""The README's table of artifacts, written from the catalogue: `python -m tangentbench.suite.readme`."""

from __future__ import annotations

import re

from tangentbench.atomic import written_whole
from tangentbench.paths import Paths, find_root
from tangentbench.suite.catalogue import Catalogue, load_catalogue

BEGIN = "<!-- artifacts: written by `make docs` -->"
END = "<!-- end of artifacts -->"


def artifact_table(catalogue: Catalogue) -> str:
    """A summary line, then one Markdown row an artifact."""
    lines = [
        f"{len(list(catalogue))} artifacts.",
        "",
        "| artifact | shows | in the paper |",
        "|---|---|---|",
    ]
    lines += [f"| `{one.name}` | {one.title} | {one.reference} |" for one in catalogue]
    return "\n".join(lines)


def with_table(readme: str, catalogue: Catalogue) -> str:
    """The README's text with its table renewed."""
    between = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    table = f"{BEGIN}\n{artifact_table(catalogue)}\n{END}"
    return between.sub(lambda _: table, readme, count=1)


def main() -> None:
    paths = Paths(find_root())
    file = paths.root / "README.md"
    renewed = with_table(file.read_text(encoding="utf-8"), load_catalogue(paths))
    with written_whole(file) as temporary:
        temporary.write_text(renewed, encoding="utf-8")


if __name__ == "__main__":
    main()
