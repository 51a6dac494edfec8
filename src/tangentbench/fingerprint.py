"""A fingerprint of the code behind a module, so that Snakemake rebuilds what an edit can change, and nothing else.

It covers the module and every module of this package it imports, directly or not. Comments, docstrings and layout do
not count. The wiring (paths, errors, registries) is left out: it cannot change a number.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = "tangentbench"
PACKAGE_FOLDER = Path(__file__).resolve().parent
NATIVE_MODULE = f"{PACKAGE}.kernels.native"
NATIVE_FOLDER = PACKAGE_FOLDER.parent / "native"
WIRING = frozenset(
    f"{PACKAGE}.{name}" for name in ("catalogue", "config", "errors", "files", "paths", "registry", "provenance")
) | {PACKAGE}


def fingerprint(module: str) -> str:
    """Hexadecimal digest of what `module` is made of; a package stands for all its modules."""
    digest = hashlib.sha256()
    for name in sorted(closure(module)):
        digest.update(f"{name}:{body_digest(name)};".encode())
    return digest.hexdigest()[:16]


def fingerprint_of(room: str, artifact: str) -> str:
    """Fingerprint of the module below `room` whose decorator registers `artifact`; of all of `room` if none does."""
    for module in (room, *modules_below(room)):
        if source_of(module) and artifact in registered_in(module):
            return fingerprint(module)
    return fingerprint(room)


@cache
def registered_in(module: str) -> frozenset[str]:
    """The names given to decorators in `module`: @study("npk_fig6") registers npk_fig6."""
    decorators = [
        decorator
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
    ]
    arguments = [argument for call in decorators if isinstance(call, ast.Call) for argument in call.args]
    return frozenset(
        argument.value
        for argument in arguments
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    )


def closure(module: str) -> set[str]:
    """`module`, the modules below it, and all modules of the package they import."""
    reached: set[str] = set()
    waiting = [name for name in (module, *modules_below(module)) if source_of(name)]
    while waiting:
        name = waiting.pop()
        if name in reached or name in WIRING:
            continue
        reached.add(name)
        waiting.extend(imports_of(name))
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
def tree_of(module: str) -> ast.Module:
    source = source_of(module)
    assert source is not None
    return ast.parse(source.read_text(encoding="utf-8"), filename=source.name)


@cache
def imports_of(module: str) -> tuple[str, ...]:
    found: set[str] = set()
    for node in runtime_nodes(tree_of(module)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        found.update(name for name in names if name.split(".")[0] == PACKAGE and source_of(name))
    return tuple(sorted(found))


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from runtime_nodes(node)


@cache
def body_digest(module: str) -> str:
    tree = tree_of(module)
    digest = hashlib.sha256(ast.dump(without_docstrings(tree)).encode())
    if module == NATIVE_MODULE:
        for source in sorted(NATIVE_FOLDER.glob("**/*.[ch]pp")):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and is_text(body[0]):
            node.body = body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
    return tree


def is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
