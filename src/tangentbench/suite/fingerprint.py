"""A fingerprint of the code behind a module, so that Snakemake rebuilds what an edit can change, and nothing else.

It covers the module and every module of this package it imports, directly or not. Comments, docstrings and layout do
not count. The wiring (paths, errors, registries) is left out: it cannot change a number.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from tangentbench.atomic import write_json
from tangentbench.errors import TangentbenchError

PACKAGE = "tangentbench"
PACKAGE_FOLDER = Path(__file__).resolve().parents[1]
NATIVE_FOLDER = PACKAGE_FOLDER.parent / "native"
NATIVE_SOURCES = {
    f"{PACKAGE}.kernels.native": ("recursion/*.[ch]pp", "simd/*.hpp"),
    f"{PACKAGE}.training.engines.native_mlp": ("training/*.[ch]pp", "simd/*.hpp"),
}
"""The C++ sources behind each module that loads a compiled core."""
MEMORY = PACKAGE_FOLDER / "__pycache__" / f"fingerprints-{sys.version_info.major}.{sys.version_info.minor}.json"
"""Facts by the sum of the source text, so that Snakemake's start does not parse the whole package again."""
WIRING = frozenset(
    f"{PACKAGE}.{name}"
    for name in (
        "atomic",
        "config",
        "device",
        "errors",
        "paths",
        "studies.registry",
        "suite.catalogue",
        "suite.provenance",
    )
) | {PACKAGE}


@dataclass(frozen=True)
class Facts:
    """What one module's source says."""

    body: str
    """Digest of its syntax tree."""
    imports: tuple[str, ...]
    """Names of this package in its import statements: modules, or things in them."""
    registered: tuple[str, ...]
    """Names given to decorators: @study("npk_fig6") registers npk_fig6."""


def fingerprint(module: str) -> str:
    """Hexadecimal digest of what `module` is made of; a package stands for all its modules."""
    digest = hashlib.sha256()
    for name in sorted(closure(module)):
        digest.update(f"{name}:{facts_of(name).body};".encode())
        for pattern in NATIVE_SOURCES.get(name, ()):
            for source in sorted(NATIVE_FOLDER.glob(pattern)):
                digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def fingerprint_of(room: str, artifact: str) -> str:
    """Fingerprint of the module below `room` whose decorator registers `artifact`; of all of `room` if none does."""
    for module in (room, *modules_below(room)):
        if source_of(module) and artifact in facts_of(module).registered:
            return fingerprint(module)
    return fingerprint(room)


def closure(module: str) -> set[str]:
    """`module`, the modules below it, and all modules of the package they import."""
    reached: set[str] = set()
    waiting = [module, *modules_below(module)]
    while waiting:
        name = waiting.pop()
        if name in reached or name in WIRING or not source_of(name):
            continue
        reached.add(name)
        waiting.extend(facts_of(name).imports)
    return reached


def modules_below(module: str) -> list[str]:
    folder = PACKAGE_FOLDER.joinpath(*module.split(".")[1:])
    return [f"{module}.{file.stem}" for file in sorted(folder.glob("*.py"))] if folder.is_dir() else []


@cache
def source_of(module: str) -> Path | None:
    base = PACKAGE_FOLDER.joinpath(*module.split(".")[1:])
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def facts_of(module: str) -> Facts:
    source = source_of(module)
    assert source is not None
    text = source.read_text(encoding="utf-8")
    key = hashlib.sha256(text.encode()).hexdigest()
    if key not in memory():
        memory()[key] = read_facts(ast.parse(text, filename=source.name))
    return memory()[key]


@cache
def memory() -> dict[str, Facts]:
    """Facts of earlier runs; what is added is kept for the next one, where the package's folder can be written."""
    known: dict[str, Facts] = {}
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
        stored = json.loads(MEMORY.read_text(encoding="utf-8")).items()
        known = {key: Facts(one["body"], tuple(one["imports"]), tuple(one["registered"])) for key, one in stored}
    atexit.register(remember, known, len(known))
    return known


def remember(known: dict[str, Facts], before: int) -> None:
    if len(known) > before:
        with suppress(TangentbenchError):
            write_json(MEMORY, {key: asdict(facts) for key, facts in known.items()})


def read_facts(tree: ast.Module) -> Facts:
    imports, registered = imports_in(tree), registered_in(tree)
    body = hashlib.sha256(ast.dump(without_docstrings(tree)).encode()).hexdigest()
    return Facts(body, imports, registered)


def imports_in(tree: ast.Module) -> tuple[str, ...]:
    found: set[str] = set()
    for node in runtime_nodes(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        found.update(name for name in names if name.split(".")[0] == PACKAGE)
    return tuple(sorted(found))


def registered_in(tree: ast.Module) -> tuple[str, ...]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    calls = [call for function in functions for call in function.decorator_list if isinstance(call, ast.Call)]
    arguments = [one.value for call in calls for one in call.args if isinstance(one, ast.Constant)]
    return tuple(sorted({value for value in arguments if isinstance(value, str)}))


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from runtime_nodes(node)


def without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and is_text(body[0]):
            node.body = body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
    return tree


def is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
