"""Which results an edit makes stale: a table of edits, each made in a copy of the sources and taken back."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_project import ROOT

from tangentbench.config import load_settings
from tangentbench.datasets.prepare import load_recipes
from tangentbench.paths import Paths
from tangentbench.suite.catalogue import load_catalogue
from tangentbench.suite.fingerprint import Fingerprints
from tangentbench.suite.fingerprint.memory import Memory
from tangentbench.suite.workflow import Wiring

PACKAGE = "src/tangentbench"
STUDIES = f"{PACKAGE}/studies"
MEASURES, FIGURES, DATASETS, GRAMS, CLAIMS = "measure *", "figure *", "dataset *", "gram_*", "claims *"
OTHER_STUDIES = tuple(
    f"measure {study}_*" for study in ("bounds", "cntk", "npk", "regularised", "survey", "tensor_programs")
)
"""All but `conditioning`."""
TORCH = ("measure npk_table2", "measure bounds_fig6_1", "measure tensor_programs_figA_1", "gram_tile *")
NO_TORCH = ("measure npk_fig1", "measure conditioning_fig6", "measure bounds_atlas", DATASETS, FIGURES, CLAIMS)
TRAINED = ("measure npk_table2", "measure npk_fig3b", "measure conditioning_fig1", "measure cntk_convergence")
UNTRAINED = (
    *("measure npk_fig1", "measure conditioning_fig6", "measure conditioning_theorem*", "measure bounds_*"),
    *(DATASETS, GRAMS, FIGURES, CLAIMS),
)


@dataclass(frozen=True)
class Edit:
    """Replace what `pattern` finds once in `file` by `new`.

    stale: patterns of jobs; every job that fits one must run again.
    fresh: patterns of jobs that must not; without any, all that are not in `stale`.
    """

    what: str
    file: str
    pattern: str
    new: str
    stale: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()


EDITS = [
    # what cannot change a number
    Edit("the downloader's tries", f"{PACKAGE}/datasets/prepare/download.py", r"ATTEMPTS = \d+", "ATTEMPTS = 60"),
    Edit("a docstring", f"{PACKAGE}/theory/paths.py", r'\A"""', '"""Other words. '),
    Edit("a comment", f"{PACKAGE}/training/loop.py", r"\nimport torch\n", "\nimport torch  # why\n"),
    Edit("layout", f"{PACKAGE}/networks/losses.py", r"\ndef squared\(", "\n\n\ndef squared("),
    Edit(
        "the annotation of a function",
        f"{PACKAGE}/networks/losses.py",
        r"def squared\(outputs: Tensor, labels: Tensor\) -> Tensor",
        "def squared(outputs: object, labels: object) -> Tensor",
    ),
    Edit(
        "the order of functions",
        f"{PACKAGE}/networks/losses.py",
        r"(?s)(def cross_entropy.*?)(def squared\(.*?)(def squared_norm)",
        r"\2\1\3",
    ),
    Edit("an unused import", f"{PACKAGE}/networks/losses.py", r"\nimport torch\n", "\nimport math\nimport torch\n"),
    Edit("a new function that nothing calls", f"{PACKAGE}/networks/losses.py", r"\Z", "\ndef hinge(x): return x\n"),
    Edit("the text of an error", f"{PACKAGE}/training/batches.py", r"cannot hold out", "cannot put aside"),
    Edit("an error's class", f"{PACKAGE}/errors.py", r"\Z", "\nclass Another(TangentbenchError): ...\n"),
    Edit("atomic writing", f"{PACKAGE}/atomic.py", r"CHUNK = 1 << 20", "CHUNK = 1 << 21"),
    Edit("where files are", f"{PACKAGE}/paths.py", r"\Z", "\nELSEWHERE = 1\n"),
    Edit("the check of a data set's files", f"{PACKAGE}/datasets/prepare/checksums.py", r"\Z", "\nEXTRA = 1\n"),
    Edit("the description of a run", f"{PACKAGE}/suite/provenance.py", r"\Z", "\nEXTRA = 1\n"),
    Edit("the choice of a device's name", f"{PACKAGE}/device.py", r'return "cuda:0"', 'return "cuda:1"'),
    Edit("a work model", f"{PACKAGE}/studies/npk/costs.py", r"\Z", "\nEXTRA = 1\n"),
    Edit("a command", f"{PACKAGE}/cli/show.py", r"\Z", "\nEXTRA = 1\n"),
    Edit("a page of the documentation", "docs/architecture.md", r"\Z", "\nMore.\n"),
    Edit("a C++ comment", "src/native/training/update.hpp", r"\A", "// A comment.\n/* and another */\n"),
    Edit("C++ layout", "src/native/recursion/cntk.cpp", r"\Z", "\n\n\n"),
    Edit("a C++ test", "src/native/tests/extra.cpp", r"\A", "int main() { return 0; }\n"),
    Edit("the version of pandas", "requirements.lock", r"(?m)^pandas==.*$", "pandas==99.0"),
    Edit("the version of tqdm", "requirements.lock", r"(?m)^tqdm==.*$", "tqdm==99.0"),
    # what can, and how far it reaches
    Edit("the colour of one figure", f"{STUDIES}/npk/figures/paths.py", "#30343A", "#30343B", ("figure npk_fig1",)),
    Edit(
        "a colour of all figures",
        f"{STUDIES}/style.py",
        "#0072B2",
        "#0072B3",
        ("figure npk_fig1", "figure cntk_table1", "figure bounds_*"),
        (MEASURES, DATASETS, GRAMS, CLAIMS, "gallery"),
    ),
    Edit(
        "a claim's tolerance",
        f"{STUDIES}/npk/catalogue.yaml",
        r"tolerance: 0\.5\b",
        "tolerance: 0.6",
        ("claims npk", "gallery"),
    ),
    Edit(
        "how claims are decided",
        f"{PACKAGE}/claims/decision.py",
        r"CONFIDENCE = 0\.95",
        "CONFIDENCE = 0.9",
        (CLAIMS,),
        (MEASURES, FIGURES, DATASETS, GRAMS),
    ),
    Edit("a template", f"{PACKAGE}/report/templates/gallery.html.j2", r"\Z", "<!-- more -->\n", ("gallery",)),
    Edit(
        "a setting of one scale",
        f"{STUDIES}/conditioning/catalogue.yaml",
        r"own_activations: \[\{name: leaky_relu, slope: 0\.1\}",
        "own_activations: [{name: leaky_relu, slope: 0.2}",
        ("measure conditioning_table_mu", "gallery"),
    ),
    Edit(
        "a constant of one study",
        f"{STUDIES}/conditioning/measure/activations.py",
        r"KINKS_SEARCHED = \(-6\.0",
        "KINKS_SEARCHED = (-7.0",
        ("measure conditioning_fig2",),
        (*OTHER_STUDIES, "measure conditioning_fig6", FIGURES, DATASETS, GRAMS, CLAIMS),
    ),
    Edit(
        "a default in a record of settings",
        f"{STUDIES}/bounds/settings.py",
        "tolerance: PositiveReal",
        "tolerance: PositiveReal = 1e-8",
        ("measure bounds_fig6_1",),
        ("measure npk_*", "measure cntk_*", FIGURES, DATASETS, GRAMS, CLAIMS),
    ),
    Edit(
        "the type of a setting",
        f"{STUDIES}/bounds/settings.py",
        "tolerance: PositiveReal",
        "tolerance: float",
        ("measure bounds_fig6_1",),
        ("measure npk_*", "measure cntk_*", FIGURES, DATASETS, GRAMS, CLAIMS),
    ),
    Edit(
        "the paths of a toy network",
        f"{PACKAGE}/theory/paths.py",
        r"def path_activity\(",
        "def path_activity(extra, ",
        ("measure npk_fig1",),
        ("measure cntk_*", "measure conditioning_*", "measure bounds_*", FIGURES, DATASETS, GRAMS),
    ),
    Edit(
        "an activation that two artifacts name",
        f"{PACKAGE}/theory/activations.py",
        r"def exponential\(\)",
        "def exponential(extra=1)",
        ("measure conditioning_table_mu", "measure conditioning_theorem5"),
    ),
    Edit(
        "an activation that most of its study names",
        f"{PACKAGE}/theory/activations.py",
        r"def selu\(\)",
        "def selu(extra=1)",
        ("measure conditioning_table_mu", "measure conditioning_fig2", "measure conditioning_theorem3"),
        (*OTHER_STUDIES, "measure conditioning_fig1", "measure conditioning_fig6", FIGURES, DATASETS, GRAMS),
    ),
    Edit("TF32", f"{PACKAGE}/device.py", "matmul.allow_tf32 = False", "matmul.allow_tf32 = True", TORCH, NO_TORCH),
    Edit("determinism", f"{PACKAGE}/device.py", "deterministic = True", "deterministic = False", TORCH, NO_TORCH),
    Edit(
        "the optimiser's epsilon",
        f"{PACKAGE}/training/optimisers.py",
        r"KERAS_EPSILON = 1e-7",
        "KERAS_EPSILON = 1e-8",
        TRAINED,
        UNTRAINED,
    ),
    Edit(
        "an optimiser that few artifacts name",
        f"{PACKAGE}/training/optimisers.py",
        r"RMSPROP_DECAY = 0\.9",
        "RMSPROP_DECAY = 0.8",
        ("measure npk_fig3b",),
        UNTRAINED,
    ),
    Edit("a loss", f"{PACKAGE}/networks/losses.py", r'reduction="none"', 'reduction="sum"', TRAINED, UNTRAINED),
    Edit("the order of batches", f"{PACKAGE}/training/batches.py", "N = 7, 8", "N = 9, 8", TRAINED, UNTRAINED),
    Edit(
        "the sources of the kernels' core",
        "src/native/recursion/relu_dual.hpp",
        r"\Z",
        "\ninline int more() { return 1; }\n",
        ("gram_tile *", "measure cntk_*", "measure survey_*"),
        ("measure npk_table2", "measure conditioning_*", "gram_inputs", "gram_store", FIGURES, DATASETS, CLAIMS),
    ),
    Edit(
        "the sources of the training core",
        "src/native/training/update.hpp",
        r"\Z",
        "\ninline int more() { return 1; }\n",
        TRAINED,
        (*UNTRAINED, "measure survey_*"),
    ),
    Edit(
        "the cores' compiler options",
        "src/native/CMakeLists.txt",
        r"-O3",
        "-O2",
        (*TRAINED, "gram_tile *", "measure cntk_*"),
        ("measure conditioning_fig6", "measure npk_fig1", FIGURES, DATASETS, CLAIMS),
    ),
    Edit("the version of torch", "requirements.lock", r"(?m)^torch==.*$", "torch==99.0", TORCH, NO_TORCH),
    Edit(
        "the version of numpy",
        "requirements.lock",
        r"(?m)^numpy==.*$",
        "numpy==99.0",
        ("measure npk_fig1", "dataset *", "gram_tile *", "claims *"),
        ("table",),
    ),
    Edit(
        "the version of matplotlib",
        "requirements.lock",
        r"(?m)^matplotlib==.*$",
        "matplotlib==99.0",
        (FIGURES,),
    ),
    Edit(
        "the version of pillow",
        "requirements.lock",
        r"(?m)^pillow==.*$",
        "pillow==99.0",
        ("dataset photographs*",),
    ),
    Edit(
        "the coding of labels",
        f"{PACKAGE}/solvers/predictor.py",
        r"OFFSET = -0\.1",
        "OFFSET = -0.2",
        ("measure cntk_table1", "measure cntk_table2", "measure cntk_vanilla_full"),
    ),
    Edit(
        "the images of a kernel",
        f"{PACKAGE}/datasets/choice.py",
        r"ROWS = 4096",
        "ROWS = 4095",
        ("gram_inputs", "measure cntk_table1"),
        ("gram_tile *", "measure npk_table2", DATASETS, FIGURES, CLAIMS),
    ),
    Edit(
        "the kernel's function",
        f"{PACKAGE}/kernels/exact.py",
        r"\ndef cntk\(",
        "\ndef cntk(extra, ",
        ("gram_tile *", "gram_certificate *", "measure cntk_table1"),
        ("gram_inputs", "gram_store", "measure npk_table2", "measure conditioning_*", DATASETS, FIGURES, CLAIMS),
    ),
    Edit(
        "the certificate's spectrum",
        f"{PACKAGE}/gram/lanczos.py",
        r"\Z",
        "\nritz.extra = 1\n",
        ("gram_certificate *",),
        ("gram_tile *", "gram_store", "gram_inputs", "measure npk_*", DATASETS, FIGURES, CLAIMS),
    ),
    Edit(
        "a weight distribution",
        f"{PACKAGE}/networks/weight_distributions.py",
        r"math\.sqrt\(0\.5\)",
        "math.sqrt(0.6)",
        ("measure tensor_programs_figA_1", "measure tensor_programs_figA_4"),
        ("measure npk_*", "measure cntk_*", "measure conditioning_*", DATASETS, GRAMS, FIGURES, CLAIMS),
    ),
    Edit(
        "a transform that some data sets use",
        f"{PACKAGE}/datasets/scaling.py",
        r"DEFAULT_EPS = 1e-13",
        "DEFAULT_EPS = 1e-12",
        ("dataset mnist*_binary_*",),
    ),
    Edit("a transform that no data set uses", f"{PACKAGE}/datasets/resampling.py", r"0\.299", "0.3"),
    Edit(
        "the reader of one format",
        f"{PACKAGE}/datasets/prepare/formats.py",
        r"STL_SIDE = 96",
        "STL_SIDE = 95",
        ("dataset stl*",),
    ),
    Edit(
        "the recipe of a data set",
        "config/datasets.yaml",
        r"classes: \{keep: \[airplane, bird\]\}",
        "classes: {keep: [bird, airplane]}",
        ("dataset stl2",),
    ),
    Edit("a publisher's address", "config/datasets.yaml", "https://ossci-datasets", "https://elsewhere"),
]


@dataclass
class Checkout:
    """A copy of what fingerprints and settings are read from."""

    root: Path
    memory: Memory

    @cached_property
    def unedited(self) -> Wiring:
        return self.wiring()

    def wiring(self) -> Wiring:
        paths = Paths(self.root)
        code = Fingerprints(self.root / "src", self.memory)
        return Wiring(load_catalogue(paths), load_settings(paths), load_recipes(paths), paths, code)

    def edited_wiring(self, edit: Edit) -> Wiring:
        """As after the edit; YAML, which takes most of the time, is read again where it was edited."""
        if edit.file.endswith(".yaml"):
            return self.wiring()
        wiring = replace(self.unedited, fingerprints=Fingerprints(self.root / "src", self.memory))
        kept = {"_sources", "_grams"} & vars(self.unedited).keys()
        vars(wiring).update({name: vars(self.unedited)[name] for name in kept})
        return wiring

    def jobs(self, wiring: Wiring) -> dict[str, str]:
        """Everything in a job's parameters that makes Snakemake run it again."""
        found = {}
        for artifact in wiring.catalogue:
            wildcards = SimpleNamespace(artifact=artifact.name, scale="quick")
            found[f"measure {artifact.name}"] = f"{wiring.study_code(wildcards)} {artifact.parts_at('quick')}"
            found[f"figure {artifact.name}"] = wiring.figure_code(artifact.name) + wiring.entry(artifact.name)
        for dataset in wiring.recipes:
            found[f"dataset {dataset}"] = wiring.dataset_code(dataset) + wiring.recipe(dataset)
        for study in wiring.catalogue.studies:
            found[f"claims {study}"] = wiring.code("claims") + wiring.claims_entry(study)
        for owner, plans in wiring.grams("quick").plans.items():
            for plan in plans.values():
                wildcards = SimpleNamespace(inputs=plan.inputs, kernel=plan.key, scale="quick")
                settings = wiring.gram_kernel(plan.inputs, plan.key, "quick")
                found[f"gram_tile {owner}"] = wiring.tile_code(wildcards) + settings
                found[f"gram_certificate {owner}"] = wiring.certificate_code(wildcards) + settings
        found |= {rule: wiring.code(rule) for rule in ("gram_inputs", "gram_store", "table")}
        return found | {"gallery": wiring.code("gallery") + wiring.whole_catalogue()}

    @contextmanager
    def edited(self, edit: Edit) -> Iterator[None]:
        file = self.root / edit.file
        before = file.read_text(encoding="utf-8") if file.exists() else None
        after, count = re.subn(edit.pattern, edit.new, before or "", count=1)
        assert count == 1 and after != before, f"{edit.file} has no {edit.pattern}: bring the edit up to date"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(after, encoding="utf-8")
        try:
            yield
        finally:
            file.unlink() if before is None else file.write_text(before, encoding="utf-8")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    root = tmp_path_factory.mktemp("checkout")
    for folder in ("src", "config", "docs"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "requirements.lock", root)
    return Checkout(root, Memory(None))


@pytest.fixture(scope="module")
def unedited(checkout: Checkout) -> dict[str, str]:
    return checkout.jobs(checkout.unedited)


def fitting(jobs: dict[str, str], patterns: tuple[str, ...]) -> set[str]:
    for pattern in patterns:
        assert any(fnmatchcase(job, pattern) for job in jobs), f"no job is called {pattern}"
    return {job for job in jobs if any(fnmatchcase(job, pattern) for pattern in patterns)}


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.what)
def test_an_edit_makes_stale_what_it_can_change(checkout: Checkout, unedited: dict[str, str], edit: Edit) -> None:
    with checkout.edited(edit):
        after = checkout.jobs(checkout.edited_wiring(edit))
    changed = {job for job in unedited if unedited[job] != after[job]}
    wanted = fitting(unedited, edit.stale)
    unwanted = fitting(unedited, edit.fresh) if edit.fresh else unedited.keys() - wanted
    assert wanted <= changed, f"stay fresh and must not: {sorted(wanted - changed)}"
    assert not changed & unwanted, f"go stale and must not: {sorted(changed & unwanted)}"


def test_the_table_covers_edits_of_both_kinds() -> None:
    harmless = [edit for edit in EDITS if not edit.stale and not edit.fresh]
    assert len(harmless) >= 12 and len(EDITS) - len(harmless) >= 12
    assert len({edit.what for edit in EDITS}) == len(EDITS)
