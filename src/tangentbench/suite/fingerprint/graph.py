"""The graph of definitions: what a function reaches, by the names it uses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tangentbench.errors import TangentbenchError
from tangentbench.suite.fingerprint.boundary import ERRORS, is_outside
from tangentbench.suite.fingerprint.memory import Memory
from tangentbench.suite.fingerprint.syntax import AMBIENT, Decorator, Definition, Facts

PACKAGE = "tangentbench"
_RECORD_LIBRARY = "msgspec"
"""Types of fields decide how settings are read in classes that derive from its Struct."""


@dataclass(frozen=True)
class Target:
    """Where a reference leads: definitions of the package, or a module of another one."""

    keys: tuple[str, ...] = ()
    foreign: str | None = None


@dataclass(frozen=True)
class Node:
    """A definition, `module:name`, or an entry of a table, `module:name[key]`, with its references resolved."""

    digest: str
    uses: tuple[str, ...]
    lookups: tuple[str, ...]
    words: tuple[str, ...]
    patterns: tuple[str, ...]
    foreign: frozenset[str]


@dataclass
class Closure:
    """Everything some definitions reach."""

    keys: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)
    """Modules of other packages."""
    whole: set[str] = field(default_factory=set)
    """Tables that are used as a whole, whose order counts too."""


class Graph:
    """The package in `folder`, whose name is tangentbench."""

    def __init__(self, folder: Path, memory: Memory) -> None:
        self.folder = folder
        self.memory = memory
        self._facts: dict[str, Facts] = {}
        self._nodes: dict[str, Node] = {}
        self._targets: dict[tuple[str, str], Target] = {}
        self._ambient: dict[str, frozenset[str]] = {}
        self._errors: dict[str, bool] = {}

    @cached_property
    def files(self) -> dict[str, Path]:
        """Every module of the package."""
        found = {}
        for file in sorted(self.folder.rglob("*.py")):
            parts = file.relative_to(self.folder).with_suffix("").parts
            found[".".join((PACKAGE, *(parts[:-1] if parts[-1] == "__init__" else parts)))] = file
        return found

    def facts(self, module: str) -> Facts:
        if module not in self._facts:
            try:
                self._facts[module] = self.memory.facts(self.files[module].read_text(encoding="utf-8"))
            except SyntaxError as error:
                file = self.files[module]
                raise TangentbenchError(
                    f"{file}, line {error.lineno}: {error.msg}: correct it and run again"
                ) from error
        return self._facts[module]

    def definition(self, key: str) -> Definition:
        module, _, name = key.partition(":")
        return self.facts(module).definitions[name.partition("[")[0]]

    def exists(self, key: str) -> bool:
        module, _, name = key.partition(":")
        return module in self.files and name in self.facts(module).definitions

    @cached_property
    def registered(self) -> dict[tuple[str, str], list[str]]:
        """Definitions by decorator and name: ("tangentbench.studies.registry:study", "npk_fig1")."""
        found: dict[tuple[str, str], list[str]] = {}
        for key, decorator, target in self._decorated():
            for name in decorator.names or ():
                found.setdefault((target, name), []).append(key)
        return found

    @cached_property
    def entries(self) -> dict[str, list[tuple[str, tuple[str, ...] | None]]]:
        """What each table holds: keys of entries with their names, None where the name is not a constant."""
        found: dict[str, list[tuple[str, tuple[str, ...] | None]]] = {}
        for module in self.files:
            for name, definition in self.facts(module).definitions.items():
                key = f"{module}:{name}"
                found.setdefault(key, []).extend((f"{key}[{entry}]", (entry,)) for entry in definition.entries)
        for key, decorator, target in self._decorated():
            definition = self.definition(target)
            module = target.partition(":")[0]
            if "." in decorator.reference and definition.kind != "function":
                found.setdefault(target, []).append((key, None))
            for table in definition.fills:
                if table in self.facts(module).definitions:
                    found.setdefault(f"{module}:{table}", []).append((key, decorator.names))
        return found

    @cached_property
    def _registrars(self) -> set[str]:
        """The package's own decorators."""
        return {target for _, _, target in self._decorated()}

    def _decorated(self) -> Iterable[tuple[str, Decorator, str]]:
        for module in self.files:
            for name, definition in self.facts(module).definitions.items():
                for decorator in definition.decorators:
                    for target in self.resolve(module, decorator.reference).keys:
                        yield f"{module}:{name}", decorator, target

    def resolve(self, module: str, reference: str) -> Target:
        """Where a reference in `module` leads, through imports and re-exports."""
        if (module, reference) not in self._targets:
            self._targets[module, reference] = Target()  # a circle of imports ends here
            self._targets[module, reference] = self._resolve(module, reference)
        return self._targets[module, reference]

    def _resolve(self, module: str, reference: str) -> Target:
        start, colon, rest = reference.partition(":")
        if not colon:
            return self._named(module, reference.split("."), own=True)
        if start.startswith("."):
            start = self._absolute(module, start)
        if start.split(".")[0] != PACKAGE:
            return Target(foreign=start.split(".")[0])
        if start not in self.files:
            return Target()
        return self._named(start, rest.split(".") if rest else [], own=False)

    def _named(self, module: str, path: list[str], *, own: bool) -> Target:
        """`path` as names in a module; from within the module itself a submodule is not a name."""
        if not path or (path[0].startswith("__") and path[0] not in self.facts(module).definitions):
            return Target() if path else Target(tuple(f"{module}:{name}" for name in self.facts(module).definitions))
        facts, name, rest = self.facts(module), path[0], path[1:]
        if name in facts.definitions:
            return Target((f"{module}:{name}",))
        if name in facts.names:
            return self.resolve(module, _joined(facts.names[name], rest))
        if not own and f"{module}.{name}" in self.files:
            return self._named(f"{module}.{name}", rest, own=False)
        if not own and name in facts.typing_names:
            on_demand = self.resolve(module, _joined(facts.typing_names[name], rest))
            return Target((*on_demand.keys, f"{module}:__getattr__"))
        return Target()

    def _absolute(self, module: str, relative: str) -> str:
        level = len(relative) - len(relative.lstrip("."))
        is_package = self.files[module].name == "__init__.py"
        parts = module.split(".")[: (None if is_package and level == 1 else -(level - is_package))]
        return ".".join([*parts, *filter(None, [relative.lstrip(".")])])

    def node(self, key: str) -> Node:
        if key not in self._nodes:
            self._nodes[key] = self._node(key)
        return self._nodes[key]

    def _node(self, key: str) -> Node:
        module, _, name = key.partition(":")
        definition = self.definition(key)
        codes = [definition.entries[name.partition("[")[2][:-1]]] if "[" in name else [definition.code]
        if definition.kind == "class" and self._derives(key, _RECORD_LIBRARY):
            codes.append(definition.fields)
        foreign: set[str] = set()
        uses, lookups = (
            self._resolved(module, (reference for code in codes for reference in getattr(code, kind)), foreign)
            for kind in ("uses", "lookups")
        )
        if key in self._registrars:  # a decorator that fills a table does not read it
            uses = [one for one in uses if not self._fills(definition, module, one)]
            lookups = [one for one in lookups if not self._fills(definition, module, one)]
        loaded = [module, *(self._absolute_module(module, one) for code in codes for one in code.imports)]
        uses += sorted(set().union(*(self.ambient(one) for one in loaded)))
        digest = f"{key}={'+'.join(code.digest for code in codes)}>{','.join([*uses, *lookups])}"
        words = tuple(word for code in codes for word in code.words)
        patterns = tuple(pattern for code in codes for pattern in code.patterns)
        return Node(digest, tuple(uses), tuple(lookups), words, patterns, frozenset(foreign))

    def _resolved(self, module: str, references: Iterable[str], foreign: set[str]) -> list[str]:
        keys: set[str] = set()
        for reference in references:
            target = self.resolve(module, reference)
            keys.update(target.keys)
            if target.foreign:
                foreign.add(target.foreign)
        return sorted(key for key in keys if not is_outside(key) and not self._is_error(key))

    def _fills(self, definition: Definition, module: str, key: str) -> bool:
        is_registry = any(not entry.startswith(f"{key}[") for entry, _ in self.entries.get(key, ()))
        return is_registry and key.partition(":")[0] == module and key.partition(":")[2] in definition.fills

    def ambient(self, module: str) -> frozenset[str]:
        """The modules whose import does something besides defining names, among those that importing this one loads."""
        if module not in self._ambient:
            self._ambient[module] = frozenset()
            if module in self.files and not is_outside(f"{module}:"):
                facts = self.facts(module)
                loaded = {self._absolute_module(module, one) for one in facts.imports}
                loaded |= {module.rpartition(".")[0]}
                found = {f"{module}:{AMBIENT}"} if AMBIENT in facts.definitions else set()
                self._ambient[module] = frozenset(found.union(*(self.ambient(one) for one in loaded)))
        return self._ambient[module]

    def _absolute_module(self, module: str, name: str) -> str:
        return self._absolute(module, name) if name.startswith(".") else name

    def _is_error(self, key: str) -> bool:
        if key not in self._errors:
            self._errors[key] = self._derives(key, ERRORS)
        return self._errors[key]

    def _derives(self, key: str, ancestor: str) -> bool:
        """Whether a class is, or derives from, the class `ancestor` or one of the foreign module `ancestor`."""
        if key == ancestor:
            return True
        definition = self.definition(key)
        targets = [self.resolve(key.partition(":")[0], base) for base in definition.bases]
        if any(one.foreign == ancestor for one in targets):
            return True
        return any(self._derives(base, ancestor) for one in targets for base in one.keys)

    def closure(self, roots: Iterable[str], words: Iterable[str] = (), *, every_entry: bool = False) -> Closure:
        """What `roots` reach. Of a table, the entries whose names are among `words` or the strings of reached code.

        every_entry: all entries of a table that is reached, for code whose names come from files.
        """
        found = Closure(words=set(words))
        waiting, tables, whole = list(roots), set[str](), found.whole
        while waiting:
            while waiting:
                key = waiting.pop()
                if key in found.keys:
                    continue
                node = self.node(key)
                found.keys.add(key)
                found.words.update(node.words)
                found.patterns.update(node.patterns)
                found.foreign.update(node.foreign)
                waiting += [*node.uses, *node.lookups]
                whole.update(node.uses)
                (whole if every_entry else tables).update(node.lookups)
            waiting = [
                entry
                for table in tables | whole
                for entry, names in self.entries.get(table, ())
                if entry not in found.keys and (table in whole or names is None or _any_named(names, found))
            ]
        found.whole = {table for table in whole if self.definition(table).entries}
        return found


def _joined(reference: str, rest: list[str]) -> str:
    return ".".join([reference, *rest]).replace(":.", ":")


def _any_named(names: tuple[str, ...], found: Closure) -> bool:
    return any(name in found.words or any(re.fullmatch(one, name) for one in found.patterns) for name in names)
