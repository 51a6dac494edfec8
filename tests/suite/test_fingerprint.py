"""The fingerprint reads code as Python does: scopes, imports, tables; small packages of a few lines show how."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_project import ROOT

from tangentbench.config import SCALES
from tangentbench.errors import TangentbenchError
from tangentbench.suite.fingerprint import Fingerprints, boundary, fingerprints, words_in
from tangentbench.suite.fingerprint.graph import Closure, Graph
from tangentbench.suite.fingerprint.memory import Memory
from tangentbench.suite.fingerprint.native import CORES, core_sources, plain_source
from tangentbench.suite.fingerprint.syntax import read_facts
from tangentbench.suite.fingerprint.versions import counted_versions, read_lock
from tangentbench.suite.workflow import Wiring


def graph_of(folder: Path, **modules: str) -> Graph:
    """A package of the given modules; `room_a` is room/a.py, and `room` its __init__.py."""
    for name, text in {"__init__": "", **modules}.items():
        path = {"room": "room/__init__"}.get(name, name.replace("room_", "room/"))
        file = folder / "tangentbench" / f"{path}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return Graph(folder / "tangentbench", Memory(None))


def reached(graph: Graph, root: str, *words: str) -> set[str]:
    return graph.closure([f"tangentbench.{root}"], words).keys


def digest_of(source: str, name: str = "f") -> str:
    return read_facts(source).definitions[name].code.digest


@pytest.mark.parametrize(
    "before, after",
    [
        ("def f(x): return x", 'def f(x):\n    """What."""\n    # why\n    return x'),
        ("def f(x): return x", "def f(x: int) -> int:\n    return x"),
        ("def f(x):\n    y = x\n    return y", "def f(x):\n    y: int = x\n    return y"),
        ("def f(x):\n    raise ValueError('one')", "def f(x):\n    raise ValueError(f'two {x}') from None"),
        ("def f(x):\n    assert x, 'one'\n    return x", "def f(x):\n    assert x\n    return x"),
        ("def f(x):\n    log.info('one')\n    return x", "def f(x):\n    return x"),
        ("import a\nimport b\ndef f(x): return x", "import b\nimport a\ndef f(x): return x"),
        ("def g(): ...\ndef f(x): return x", "def f(x): return x\ndef g(): ..."),
    ],
)
def test_what_cannot_change_a_number_does_not_count(before: str, after: str) -> None:
    assert digest_of(before) == digest_of(after)


@pytest.mark.parametrize(
    "before, after",
    [
        ("def f(x): return x", "def f(x): return x + 1"),
        ("def f(x=1): return x", "def f(x=2): return x"),
        ("def f(x):\n    raise ValueError('one')", "def f(x):\n    raise KeyError('one')"),
        ("f = {}", "f = {}\nf.update(a=1)"),
        ("f = 1", "f = 1\nif g:\n    f = 2"),
        ("class f:\n    x: int = 1", "class f:\n    x: int = 2"),
        ("class f:\n    x: int", "class f:\n    y: int"),
        ("def f(x):\n    return x", "@cache\ndef f(x):\n    return x"),
    ],
)
def test_what_can_change_a_number_counts(before: str, after: str) -> None:
    assert digest_of(before) != digest_of(after)


def test_types_of_fields_count_for_records_of_settings_only(tmp_path: Path) -> None:
    def digest(kind: str, base: str) -> str:
        text = f"import msgspec\nclass Base(msgspec.Struct): ...\nclass Plain: ...\nclass R({base}):\n    x: {kind}"
        return graph_of(tmp_path / base / kind, a=text).node("tangentbench.a:R").digest

    assert digest("int", "Base") != digest("str", "Base")
    assert digest("int", "Plain") == digest("str", "Plain")


def test_only_names_that_are_used_are_followed(tmp_path: Path) -> None:
    graph = graph_of(
        tmp_path,
        a="from tangentbench.b import used, unused\nfrom tangentbench import b as c\nLIMIT = 3\nOTHER = 4\n"
        "def f(OTHER):\n    unused = OTHER\n    return used(LIMIT, c.more, [used for used in unused])",
        b="def used(x): return helper(x)\ndef unused(): ...\ndef helper(x): ...\nmore = 1\nless = 2",
    )
    assert reached(graph, "a:f") == {
        f"tangentbench.{key}" for key in ("a:f", "a:LIMIT", "b:used", "b:helper", "b:more")
    }


def test_imports_are_followed_through_packages_and_functions(tmp_path: Path) -> None:
    graph = graph_of(
        tmp_path,
        room="from tangentbench.room.inner import thing\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from tangentbench.room.heavy import late\ndef __getattr__(name): ...",
        room_inner="def thing(): ...",
        room_heavy="def late(): ...",
        a="def f():\n    from tangentbench.room import thing as t, late\n    import tangentbench.room.heavy as h\n"
        "    return t(), late()",
    )
    assert {key.removeprefix("tangentbench.") for key in reached(graph, "a:f")} == {
        *("a:f", "room.inner:thing", "room.heavy:late", "room:__getattr__")
    }


def test_what_a_module_does_when_imported_counts_for_whoever_imports_it(tmp_path: Path) -> None:
    graph = graph_of(
        tmp_path,
        style="import matplotlib\nmatplotlib.rcParams.update(LOOK)\nLOOK = {'a': 1}",
        a="import tangentbench.style\ndef f(): return 1",
        b="def f(): return 1",
    )
    assert "tangentbench.style:LOOK" in reached(graph, "a:f")
    assert reached(graph, "b:f") == {"tangentbench.b:f"}


REGISTRY = """
_TABLE = {}
def register(name):
    def put(function):
        _TABLE[name] = function
        return function
    return put
def find(name): return _TABLE[name]
@register("one")
def first(): ...
@register("two")
def second(): ...
@register("norm_" + "three")
def third(): ...
def every(): return list(_TABLE)
def direct(): return first()
"""


@pytest.mark.parametrize(
    "root, words, expected",
    [
        ("find", (), {"third"}),
        ("find", ("two",), {"second", "third"}),
        ("every", (), {"first", "second", "third"}),
        ("direct", ("two",), {"first"}),
        ("named", (), {"first", "third"}),
        ("built", (), {"second", "third"}),
    ],
)
def test_an_entry_of_a_registry_is_reached_by_its_name(
    tmp_path: Path, root: str, words: tuple[str, ...], expected: set[str]
) -> None:
    text = f"{REGISTRY}\ndef named(): return find('one')\ndef built(x): return find(f't{{x}}')"
    found = reached(graph_of(tmp_path, a=text), f"a:{root}", *words)
    assert {key.partition(":")[2] for key in found} & {"first", "second", "third"} == expected


def test_an_entry_of_a_dict_is_reached_by_its_key(tmp_path: Path) -> None:
    text = "def p(): ...\ndef q(): ...\nT = {'p': p}\nT['q'] = q\ndef f(n): return T[n] if n in T else T.get(n)"
    graph = graph_of(tmp_path, a=text)
    assert "tangentbench.a:p" not in reached(graph, "a:f")
    assert {"tangentbench.a:q", "tangentbench.a:T[q]"} <= reached(graph, "a:f", "q")
    assert {"tangentbench.a:p", "tangentbench.a:q"} <= graph.closure(["tangentbench.a:f"], every_entry=True).keys


def test_words_of_settings_are_cut_into_names() -> None:
    assert {"kernel", "cntk_v 3", "cntk_v", "v", "3"} <= words_in({"kernel": ["cntk_v 3"], "depth": 3})


def test_errors_and_the_boundary_are_not_entered(tmp_path: Path) -> None:
    graph = graph_of(
        tmp_path,
        errors="class TangentbenchError(Exception): ...",
        paths="def where(): ...",
        a="from tangentbench.errors import TangentbenchError\nfrom tangentbench.paths import where\n"
        "class Wrong(TangentbenchError):\n    text = 'a'\ndef f():\n    where()\n    raise Wrong",
    )
    assert reached(graph, "a:f") == {"tangentbench.a:f"}


def test_names_of_the_boundary_exist() -> None:
    graph = Fingerprints().graph
    for key in [*boundary.BOUNDARY, *boundary.LOADERS, boundary.ERRORS, fingerprints.ARITHMETIC]:
        assert key in graph.files or graph.exists(key), f"{key} is gone: correct boundary.py"


def test_only_declared_functions_import_by_strings() -> None:
    graph = Fingerprints().graph
    loaders = {
        f"{module}:{name}"
        for module in graph.files
        if not module.startswith("tangentbench.cli.")
        for name, definition in graph.facts(module).definitions.items()
        if any(use.endswith("import_module") for use in definition.code.uses)
    }
    assert loaders == set(boundary.LOADERS)


def test_a_root_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fingerprints.STEPS, "claims", fingerprints.Step(("tangentbench.claims:gone",)))
    with pytest.raises(TangentbenchError, match=r"begins at tangentbench\.claims:gone, which is gone: correct STEPS"):
        Fingerprints().step("claims")


def test_a_module_that_is_no_python_is_named(tmp_path: Path) -> None:
    with pytest.raises(TangentbenchError, match=r"a\.py, line 2: .*: correct it and run again"):
        reached(graph_of(tmp_path, a="X = 1\ndef f(:"), "a:f")


def test_cpp_counts_without_comments_and_layout() -> None:
    before = 'int f() {\n  return 1; // one\n}\n#include "a.hpp"\n/* two\n lines */ char s[] = "// kept";\n'
    after = 'int f() { return 1; }\n#include   "a.hpp"\nchar s[] =\n    "// kept";'
    assert plain_source(before) == plain_source(after)
    assert plain_source(before) != plain_source(before.replace("return 1", "return 2"))
    assert plain_source(before) != plain_source(before.replace("// kept", "// other"))


@pytest.mark.parametrize("core", CORES)
def test_a_core_has_units_headers_and_no_tests(core: str) -> None:
    native = ROOT / "src" / "native"
    names = [file.relative_to(native).as_posix() for file in core_sources(native, core)]
    assert any(name.endswith(".cpp") for name in names)
    assert any(name.endswith("simd.hpp") for name in names)
    assert not any("tests" in name for name in names)


def test_versions_that_count(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("# why\nNumPy==2.0 ; python_version > '3'\npandas==2.2\njax==0.4\njaxlib==0.5\n")
    assert counted_versions({"numpy", "pandas", "jax"}, read_lock(lock)) == ["jax==0.4", "jaxlib==0.5", "numpy==2.0"]
    assert read_lock(tmp_path / "none") == {}


def test_the_memory_is_used_and_a_damaged_one_ignored(tmp_path: Path) -> None:
    file = tmp_path / "memory"
    first = Memory(file)
    facts = first.facts("X = 1")
    first.save()
    assert Memory(file).facts("X = 1") == facts
    file.write_bytes(file.read_bytes()[:20])
    assert Memory(file).facts("X = 1") == facts


def test_every_artifact_has_its_own_function_and_a_fingerprint_that_stays() -> None:
    wiring = Wiring.load({})
    code = (
        "from types import SimpleNamespace as N; from tangentbench.suite.workflow import Wiring; w = Wiring.load({});"
        "print(*(w.study_code(N(artifact=one.name, scale='quick')) for one in w.catalogue))"
    )
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    found = []
    for artifact in wiring.catalogue:
        for scale in SCALES:
            closure = closure_of(wiring, artifact.name, scale)
            own = f"tangentbench.studies.{artifact.study}."
            assert any(key.startswith(own) for key in closure.keys), f"{artifact.name}: no study function found"
            assert wiring.fingerprints.graph.registered[fingerprints.FIGURE, artifact.name]
        found.append(wiring.study_code(Wildcards(artifact.name, "quick")))
    assert again.stdout.split() == found


class Wildcards:
    def __init__(self, artifact: str, scale: str) -> None:
        self.artifact, self.scale = artifact, scale


def closure_of(wiring: Wiring, artifact: str, scale: str) -> Closure:
    datasets = bool(wiring.catalogue.artifact(artifact).datasets_at(scale))
    return wiring.fingerprints.measure_closure(artifact, wiring.study_words(artifact, scale), datasets)
