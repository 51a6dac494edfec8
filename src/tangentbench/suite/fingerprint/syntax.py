"""What a module's source says, definition by definition, read from its syntax tree; nothing is imported.

A definition is a top-level function, class or name, with every statement that changes it. Comments, docstrings, layout,
annotations of functions, the texts of errors and lines of a log are dropped: they cannot change a number.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec

AMBIENT = ""
"""The name of what a module does when it is imported besides defining names."""
_MUTATORS = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})
_LOG_NAMES = frozenset({"log", "logger", "logging"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Scope = dict[str, str | None]
"""Names of one scope: None for a plain local name, a reference for one that an import statement binds."""


class Code(msgspec.Struct, frozen=True):
    """A piece of code: its digest, and everything it names.

    References are `name.attribute...` in the module's own names, or `module:name...` where a function imports.
    """

    digest: str = ""
    uses: tuple[str, ...] = ()
    lookups: tuple[str, ...] = ()
    """References that are only looked into by key: `TABLE[name]`, `name in TABLE`, `TABLE.get(name)`."""
    words: tuple[str, ...] = ()
    """Its string constants; a name in a table can be one of them."""
    patterns: tuple[str, ...] = ()
    """Regular expressions of strings it builds: f"norm_{kind}" is norm_.*"""
    imports: tuple[str, ...] = ()
    """Modules that its own import statements load."""


class Decorator(msgspec.Struct, frozen=True):
    """A decorator and the names it is given: its strings, the function's own name without arguments, else None."""

    reference: str
    names: tuple[str, ...] | None


class Definition(msgspec.Struct, frozen=True):
    code: Code
    kind: str
    """function, class, table (a dict with constant keys can be reached entry by entry) or value."""
    entries: dict[str, Code] = {}
    decorators: tuple[Decorator, ...] = ()
    fills: tuple[str, ...] = ()
    """Names that a function changes or hands on: a decorator with such names fills a registry."""
    bases: tuple[str, ...] = ()
    fields: Code = Code()
    """Annotations of a class's fields, which count for records of settings only."""


class Facts(msgspec.Struct, frozen=True):
    """All of one module."""

    definitions: dict[str, Definition]
    names: dict[str, str]
    """What import statements bind: name to reference."""
    typing_names: dict[str, str]
    """The same under `if TYPE_CHECKING`: where a name leads that the module's `__getattr__` loads on demand."""
    imports: tuple[str, ...]


def read_facts(source: str) -> Facts:
    """The facts of a module's source text."""
    tree = ast.parse(source)
    typing_names: dict[str, str] = {}
    for node in tree.body:
        if _is_type_checking(node):
            typing_names.update(_bound_imports(_imports_in(node)))
    plain = cast("ast.Module", _Plain().visit(tree))
    imports = [node for statement in plain.body for node in _top_level_imports(statement)]
    owned: dict[str, list[ast.stmt]] = {}
    known = {name for statement in plain.body for name in _bound_names(statement)}
    for statement in plain.body:
        if isinstance(statement, ast.Import | ast.ImportFrom) or _is_main(statement):
            continue
        for name in _owners(statement, known):
            owned.setdefault(name, []).append(statement)
    return Facts(
        definitions={name: _definition(name, statements) for name, statements in owned.items()},
        names=_bound_imports(imports),
        typing_names=typing_names,
        imports=tuple(sorted(_loaded_modules(imports))),
    )


def _definition(name: str, statements: Sequence[ast.stmt]) -> Definition:
    only = statements[0]
    if isinstance(only, _Function):
        return Definition(
            _code(statements), "function", decorators=_decorators(only), fills=tuple(sorted(set(_filled(only))))
        )
    if isinstance(only, ast.ClassDef):
        bases = tuple(chain for base in only.bases if (chain := _chain(base)))
        return Definition(
            _code(statements), "class", decorators=_decorators(only), bases=bases, fields=_field_annotations(only)
        )
    rest, entries = _table_entries(name, statements)
    return Definition(_code(rest), "table" if _is_table(statements) else "value", entries=entries)


def _code(statements: Sequence[ast.AST]) -> Code:
    references = _References()
    for statement in statements:
        references.visit(statement)
    text = ";".join(_dump(statement) for statement in statements)
    return Code(
        digest=hashlib.sha256(text.encode()).hexdigest()[:24],
        uses=tuple(sorted(references.uses)),
        lookups=tuple(sorted(references.lookups - references.uses)),
        words=tuple(sorted(references.words)),
        patterns=tuple(sorted(references.patterns)),
        imports=tuple(sorted(references.imports)),
    )


def _owners(statement: ast.stmt, known: set[str]) -> list[str]:
    """The names a top-level statement belongs to: those it binds or changes, else the module itself."""
    names = set(_bound_names(statement)) | {root for root in _changed_roots(statement) if root in known}
    return sorted(names) or [AMBIENT]


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, _Function | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try):
        for inner in ast.iter_child_nodes(statement):
            for node in [inner, *(inner.body if isinstance(inner, ast.ExceptHandler) else [])]:
                if isinstance(node, ast.stmt):
                    yield from _bound_names(node)
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _changed_roots(statement: ast.AST) -> Iterator[str]:
    """`TABLE` of `TABLE["x"] = ...` and of `TABLE.update(...)`."""
    if isinstance(statement, _Function | ast.ClassDef):
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield _root(node)
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
        ):
            yield _root(node.value.func)


def _filled(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield _root(node)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS:
                yield _root(node.func)
            yield from (argument.id for argument in node.args if isinstance(argument, ast.Name))


def _is_table(statements: Sequence[ast.stmt]) -> bool:
    value = statements[0].value if isinstance(statements[0], ast.Assign | ast.AnnAssign) else None
    return isinstance(value, ast.Dict | ast.List | ast.Set)


def _table_entries(name: str, statements: Sequence[ast.stmt]) -> tuple[list[ast.AST], dict[str, Code]]:
    """The entries with constant names of `NAME = {"x": ...}` and `NAME["x"] = ...`, and what is left."""
    rest: list[ast.AST] = []
    entries: dict[str, list[ast.AST]] = {}
    for statement in statements:
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if isinstance(value, ast.Dict) and isinstance(target, ast.Name):
            pairs = list(zip(value.keys, value.values, strict=True))
            for key, one in pairs:
                if (word := _word(key)) is not None:
                    entries.setdefault(word, []).append(one)
            others = [(key, one) for key, one in pairs if _word(key) is None]
            remainder = ast.Dict([key for key, _ in others], [one for _, one in others])
            rest.append(ast.Assign([target], remainder))
        elif isinstance(target, ast.Subscript) and _chain(target.value) == name and _word(target.slice) is not None:
            entries.setdefault(str(_word(target.slice)), []).append(cast("ast.Assign", statement).value)
        else:
            rest.append(statement)
    return rest, {key: _code(values) for key, values in entries.items()}


def _word(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _decorators(node: _Function | ast.ClassDef) -> tuple[Decorator, ...]:
    found = []
    for decorator in node.decorator_list:
        called = isinstance(decorator, ast.Call)
        chain = _chain(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if chain is None:
            continue
        arguments = decorator.args if isinstance(decorator, ast.Call) else []
        words = tuple(word for argument in arguments if (word := _word(argument)) is not None)
        names = (words if len(words) == len(arguments) and words else None) if called else (node.name,)
        found.append(Decorator(chain, names))
    return tuple(found)


def _field_annotations(node: ast.ClassDef) -> Code:
    return _code([cast("ast.AST", annotation) for annotation in getattr(node, "field_annotations", ())])


class _Plain(ast.NodeTransformer):
    """Take away what cannot change a number."""

    def __init__(self) -> None:
        self.in_class = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: Any) -> ast.AST:
        node.returns = node.type_comment = None
        was, self.in_class = self.in_class, False
        self.generic_visit(node)
        self.in_class = was
        return cast("ast.AST", node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.field_annotations = [  # type: ignore[attr-defined]
            ast.Tuple([ast.Constant(one.target.id), one.annotation], ast.Load())
            for one in node.body
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        ]
        was, self.in_class = self.in_class, True
        self.generic_visit(node)
        self.in_class = was
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = node.type_comment = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self.generic_visit(node)
        if self.in_class:
            node.annotation = ast.Constant(None)
            return node
        return ast.Assign([node.target], node.value) if node.value is not None else None

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        node.cause = None
        if isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.msg = None
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Constant):
            return None
        if isinstance(node.value, ast.Call):
            chain = _chain(node.value.func) or ""
            if chain.split(".")[0] in _LOG_NAMES or chain == "warnings.warn":
                return None
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> Any:
        if _is_type_checking(node):
            block = self.generic_visit(ast.Module(node.orelse, []))
            return cast("ast.Module", block).body
        return self.generic_visit(node)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and (_chain(node.test) or "").split(".")[-1] == "TYPE_CHECKING"


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and _chain(node.test.left) == "__name__"


def _imports_in(node: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    return [one for one in ast.walk(node) if isinstance(one, ast.Import | ast.ImportFrom)]


def _top_level_imports(statement: ast.stmt) -> list[ast.Import | ast.ImportFrom]:
    return [] if isinstance(statement, _Function | ast.ClassDef) else _imports_in(statement)


def _bound_imports(imports: Iterable[ast.Import | ast.ImportFrom]) -> dict[str, str]:
    bound = {}
    for node in imports:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                bound[alias.asname or alias.name] = f"{'.' * node.level}{node.module or ''}:{alias.name}"
            elif alias.asname:
                top, _, rest = alias.name.partition(".")
                bound[alias.asname] = f"{top}:{rest}"
            else:
                bound[alias.name.split(".")[0]] = f"{alias.name.split('.')[0]}:"
    return bound


def _loaded_modules(imports: Iterable[ast.Import | ast.ImportFrom]) -> set[str]:
    loaded = set()
    for node in imports:
        if isinstance(node, ast.ImportFrom):
            base = f"{'.' * node.level}{node.module or ''}"
            loaded |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        else:
            loaded |= {alias.name for alias in node.names}
    return loaded


def _chain(node: ast.AST) -> str | None:
    """`a.b.c` of nested attributes of a name, else None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _chain(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


class _References(ast.NodeVisitor):
    """The module-level names that code uses, with Python's scopes; and its strings."""

    def __init__(self) -> None:
        self.uses: set[str] = set()
        self.lookups: set[str] = set()
        self.words: set[str] = set()
        self.patterns: set[str] = set()
        self.imports: set[str] = set()
        self.scopes: list[tuple[bool, _Scope]] = []

    def refer(self, node: ast.AST, into: set[str]) -> bool:
        """Note the reference at `node`, if it is one; False where it is none."""
        chain = _chain(node)
        if chain is None:
            return False
        root, _, rest = chain.partition(".")
        innermost = len(self.scopes) - 1
        for position in range(innermost, -1, -1):
            is_class, scope = self.scopes[position]
            if root in scope and (not is_class or position == innermost):
                bound = scope[root]
                if bound is not None:
                    into.add(".".join(part for part in (bound, rest) if part).replace(":.", ":"))
                return True
        into.add(chain)
        return True

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.refer(node, self.uses)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not self.refer(node, self.uses):
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not self.refer(node.value, self.lookups):
            self.visit(node.value)
        self.visit(node.slice)

    def visit_Compare(self, node: ast.Compare) -> None:
        self.visit(node.left)
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if not (isinstance(operator, ast.In | ast.NotIn) and self.refer(right, self.lookups)):
                self.visit(right)

    def visit_Call(self, node: ast.Call) -> None:
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr == "get" and _chain(func.value):
            self.refer(func.value, self.lookups)
        elif isinstance(func, ast.Attribute) and func.attr == "join" and (word := _word(func.value)):
            self.patterns.add(f".*{re.escape(word)}.*")
        else:
            self.visit(func)
            if _chain(func) == "dict":
                self.words |= {keyword.arg for keyword in node.keywords if keyword.arg}
        for argument in [*node.args, *node.keywords]:
            self.visit(argument)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.words.add(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        words = [_word(part) for part in node.values]
        if any(words):
            self.patterns.add("".join(".*" if word is None else re.escape(word) for word in words))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Add | ast.Mod):
            for side in (node.left, node.right):
                if word := _word(side):
                    self.patterns.add(f".*{re.escape(word)}.*")
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.words.add(node.target.id)  # a field's name, which asdict() and ** make a string
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.imports |= _loaded_modules([node])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.imports |= _loaded_modules([node])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node)

    def _function(self, node: _Function | ast.Lambda) -> None:
        for outside in [*getattr(node, "decorator_list", []), *node.args.defaults, *node.args.kw_defaults]:
            if outside is not None:
                self.visit(outside)
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        arguments = [argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)]
        self._inside((False, {**dict.fromkeys(arguments), **_local_names(body)}), body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for outside in [*node.decorator_list, *node.bases, *node.keywords]:
            self.visit(outside)
        self._inside((True, _local_names(node.body)), node.body)

    def _inside(self, scope: tuple[bool, _Scope], body: Sequence[ast.AST]) -> None:
        self.scopes.append(scope)
        for statement in body:
            self.visit(statement)
        self.scopes.pop()

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node)

    def _comprehension(self, node: _Comprehension) -> None:
        self.visit(node.generators[0].iter)
        targets = [name for one in node.generators for name in _stored(one.target)]
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        inner: list[ast.AST] = [condition for one in node.generators for condition in one.ifs]
        inner += [one.iter for one in node.generators[1:]]
        self._inside((False, dict.fromkeys(targets)), [*inner, *results])


def _local_names(body: Iterable[ast.AST]) -> _Scope:
    """What the statements of a function or class bind, without what functions inside them bind."""
    scope: _Scope = {}
    outer: set[str] = set()
    for node in _own_nodes(body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            scope.update(_bound_imports([node]))
        elif isinstance(node, _Function | ast.ClassDef):
            scope.setdefault(node.name, None)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            scope.setdefault(node.id, None)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            scope.setdefault(node.name, None)
        elif isinstance(node, ast.Global):
            outer.update(node.names)
    return {name: bound for name, bound in scope.items() if name not in outer}


def _own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in body:
        yield node
        if isinstance(node, _Function | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, _Comprehension):
            yield from (one for one in ast.walk(node) if isinstance(one, ast.NamedExpr))
            yield from (one.target for one in ast.walk(node) if isinstance(one, ast.NamedExpr))
            continue
        yield from _own_nodes(ast.iter_child_nodes(node))


def _stored(target: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


def _dump(node: Any) -> str:
    """A syntax tree as text, the same in every version of Python; import statements count by what they lead to."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Pass):
        return ""
    if isinstance(node, ast.AST):
        fields = (
            f"{name}={_dump(value)}"
            for name, value in ast.iter_fields(node)
            if name not in ("ctx", "kind", "type_comment", "type_params") and value is not None and value != []
        )
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(filter(None, map(_dump, node)))}]"
    return repr(node)
