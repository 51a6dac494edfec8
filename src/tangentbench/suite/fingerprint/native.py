"""The C++ sources of the compiled cores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

CORES: Mapping[str, tuple[str, ...]] = {
    "_cntk_core.so": ("recursion/*.cpp",),
    "_training_core.so": ("training/*.cpp",),
}
"""The translation units of each core below src/native, which lead to what they include.

Code that names one of these libraries counts its sources.
"""

_BUILD_FILE = "CMakeLists.txt"
_COMPILING = re.compile(r"(target_|add_)?compile_(options|definitions)|set_source_files_properties|set|list")
"""CMake's commands that can say how a core is compiled; rounding depends on it."""
_OPTION = re.compile(r'(^|[\s"])-\w|CMAKE_CXX|CMAKE_BUILD_TYPE|PROPERTIES|DEFINITIONS|TANGENTBENCH_X86')
_FOR_TESTS = re.compile(r"^\S*test|-fsanitize")
_COMMENT_OR_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\w+|[^\w\s]')
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_COMMAND = re.compile(r"(\w+)\s*\(([^()]*)\)")


def core_sources(folder: Path, core: str) -> list[Path]:
    """The translation units of a core and all files of ours that they include; none in an install without sources."""
    found: dict[Path, None] = {}
    waiting = [file.resolve() for pattern in CORES[core] for file in sorted(folder.glob(pattern))]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = None
        for name in _INCLUDE.findall(file.read_text(encoding="utf-8")):
            candidates = (file.parent / name, folder / name)
            waiting += [one.resolve() for one in candidates if one.is_file()][:1]
    return sorted(found)


def core_text(folder: Path, core: str) -> str:
    """What a core is compiled from: its sources without comments and layout, and the compiler's options."""
    sources = core_sources(folder, core)
    root = folder.resolve()
    parts = [f"{file.relative_to(root).as_posix()}\n{plain_source(file.read_text('utf-8'))}" for file in sources]
    build = folder / _BUILD_FILE
    if sources and build.is_file():
        parts += _compiling_commands(build.read_text(encoding="utf-8"))
    return "\n".join(parts)


def plain_source(text: str) -> str:
    """C++ without comments, its tokens joined by single blanks; a line of the preprocessor stays a line."""
    code = _COMMENT_OR_STRING.sub(lambda match: match[0] if match[0].startswith('"') else " ", text)
    lines = (" ".join(_TOKEN.findall(line)) for line in code.replace("\\\n", " ").splitlines())
    kept: list[str] = []
    for line in filter(None, lines):
        if line.startswith("#") or not kept or kept[-1].startswith("#"):
            kept.append(line)
        else:
            kept[-1] += f" {line}"
    return "\n".join(kept)


def _compiling_commands(text: str) -> Iterator[str]:
    plain = "\n".join(line.partition("#")[0] for line in text.splitlines())
    for name, arguments in _COMMAND.findall(plain):
        words = " ".join(arguments.split())
        if _COMPILING.fullmatch(name) and _OPTION.search(words) and not _FOR_TESTS.search(words):
            yield f"{name}({words})"
