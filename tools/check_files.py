"""Check text files as .editorconfig wants them: a last line that ends, no trailing blanks, YAML that can be read.

    python tools/check_files.py FILE...

Exits with status 1 and a sentence for each file that fails.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

YAML_SUFFIXES = {".yaml", ".yml"}


def main(names: list[str]) -> int:
    complaints = [f"{name}: {complaint}" for name in names for complaint in complaints_about(Path(name))]
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


def complaints_about(file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ["is not UTF-8; save it as UTF-8"]
    found = []
    if text and (not text.endswith("\n") or text.endswith("\n\n")):
        found.append("must end with exactly one newline; add or remove lines at the end")
    lines = enumerate(text.splitlines(), start=1)
    found += [f"line {number} ends in blanks; remove them" for number, line in lines if line != line.rstrip(" \t")]
    if file.suffix in YAML_SUFFIXES:
        try:
            list(yaml.compose_all(text))
        except yaml.YAMLError as error:
            found.append(f"is not YAML: {' '.join(str(error).split())}")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
