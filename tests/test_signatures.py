"""No function of the package takes more than eight parameters: settings are records."""

from __future__ import annotations

import ast
from pathlib import Path

from small_project import ROOT

PACKAGE = ROOT / "src" / "tangentbench"
MOST = 8
COMMAND_LINES = ("cli", "suite/steps.py")
"""A command's parameters are its options."""
TRITON = ("kernels/_backends/triton_plane.py",)


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = function.args
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("click" in ast.unparse(one) or ast.unparse(one) in ("job", "step") for one in function.decorator_list)


def wide_functions(file: Path) -> list[str]:
    name = file.relative_to(PACKAGE).as_posix()
    if name.startswith(TRITON):
        return []
    found = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or len(parameters(node)) <= MOST:
            continue
        if not (name.startswith(COMMAND_LINES) and is_command(node)):
            found.append(f"{name}:{node.lineno} {node.name} takes {len(parameters(node))} parameters")
    return found


def test_no_function_takes_more_than_eight_parameters() -> None:
    wide = [line for file in sorted(PACKAGE.rglob("*.py")) for line in wide_functions(file)]
    assert not wide, "give them a record of settings:\n" + "\n".join(wide)
