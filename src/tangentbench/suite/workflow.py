"""What Snakemake's rules ask: the files of each stage, the settings behind them, the code behind those."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tangentbench.config import SCALES, load_settings
from tangentbench.datasets.prepare.recipes import load_recipes
from tangentbench.datasets.prepare.sources import load_sources
from tangentbench.errors import UnknownName
from tangentbench.gram.identity import canonical, identity
from tangentbench.gram.plans import TEST, TRAIN, GramPlan
from tangentbench.paths import Paths
from tangentbench.studies.gram_work import certificate_work, tile_work, tiled_work
from tangentbench.studies.work import Work
from tangentbench.suite.catalogue import Catalogue, load_catalogue
from tangentbench.suite.costs import load_unit_costs, part_work, without
from tangentbench.suite.fingerprint import Fingerprints, words_in
from tangentbench.suite.gram_plans import Grams, part_plans
from tangentbench.suite.needs import Cluster, Needs
from tangentbench.suite.part_datasets import part_datasets


@dataclass(frozen=True)
class Wiring:
    """The catalogue seen from the workflow; paths are relative, as Snakemake runs in the checkout."""

    catalogue: Catalogue
    settings: Mapping[str, Any]
    recipes: Mapping[str, Any]
    paths: Paths
    fingerprints: Fingerprints = field(default_factory=Fingerprints)
    _grams: dict[str, Grams] = field(default_factory=dict, init=False, repr=False)
    _parts: dict[tuple[str, str, str], Needs] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def load(cls, overrides: Mapping[str, Any]) -> Wiring:
        paths = Paths(Path())
        wiring = cls(load_catalogue(paths), load_settings(paths, overrides), load_recipes(paths), paths)
        wiring.check_datasets()
        return wiring

    def check_datasets(self) -> None:
        for artifact in self.catalogue:
            for name in (name for scale in SCALES for name in artifact.datasets_at(scale)):
                if name not in self.recipes:
                    file = self.paths.study_catalogue(artifact.study)
                    raise UnknownName("data set", name, self.recipes, f"{file} names it for {artifact.name}")
        for owner, plans in self.grams(self.scale).plans.items():
            for plan in plans.values():
                if plan.dataset not in self.recipes:
                    see = f"{self.paths.grams} names it for {owner}"
                    raise UnknownName("data set", plan.dataset, self.recipes, see)

    @property
    def scale(self) -> str:
        return str(self.settings["scale"])

    def pictures(self, artifact: str, scale: str) -> list[str]:
        study = self.catalogue.artifact(artifact).study
        return [str(self.paths.figure(scale, study, artifact, kind)) for kind in ("png", "pdf")]

    def study_tables(self, study: str, scale: str) -> list[str]:
        return [str(self.paths.table(scale, study, artifact)) for artifact in self.catalogue.studies[study].artifacts]

    def study_files(self, study: str, scale: str) -> list[str]:
        pictures = [file for name in self.catalogue.studies[study].artifacts for file in self.pictures(name, scale)]
        return [*pictures, str(self.paths.claims(scale, study))]

    def everything(self, scale: str) -> list[str]:
        return [file for study in self.catalogue.studies for file in self.study_files(study, scale)]

    def parts(self, artifact: str, scale: str) -> list[str]:
        entry = self.catalogue.artifact(artifact)
        return [str(self.paths.part(scale, entry.study, artifact, part)) for part in entry.parts_at(scale)]

    def part_settings(self, artifact: str, scale: str, part: str) -> dict[str, Any]:
        return self.catalogue.artifact(artifact).part_settings(scale, part)

    def datasets(self, artifact: str, scale: str, part: str) -> list[str]:
        names = part_datasets(self.catalogue.artifact(artifact), scale, part)
        return [str(self.paths.dataset(name)) for name in names]

    def used_tables(self, artifact: str, scale: str) -> list[str]:
        used = self.catalogue.used_by(self.catalogue.artifact(artifact), scale)
        return [str(self.paths.table(scale, one.study, one.name)) for one in used]

    def grams(self, scale: str) -> Grams:
        """Every planned matrix of a scale; a build at one scale plans no other."""
        if scale not in self._grams:
            self._grams[scale] = Grams.at(self.paths, self.catalogue, scale)
        return self._grams[scale]

    def used_grams(self, artifact: str, scale: str, part: str) -> list[str]:
        """The certificates, and the images, of the matrices that a part takes as inputs."""
        plans = part_plans(self.catalogue.artifact(artifact), scale, part)
        images = {file: None for plan in plans for file in self.gram_inputs(plan.inputs, scale)}
        return [*(file for plan in plans for file in self.plan_certificates(plan, scale)), *images]

    def certificates(self, owner: str, scale: str) -> list[str]:
        return [file for plan in self.grams(scale).of(owner).values() for file in self.plan_certificates(plan, scale)]

    def plan_certificates(self, plan: GramPlan, scale: str) -> list[str]:
        place = (scale, plan.inputs, plan.key)
        return [str(self.paths.gram_certificate(*place, matrix)) for matrix in plan.plan.matrices]

    def tiles(self, inputs: str, kernel: str, matrix: str, scale: str) -> list[str]:
        tiles = self.grams(scale).stored(inputs, kernel).tiles(matrix)
        return [str(self.paths.gram_tile(scale, inputs, kernel, matrix, tile)) for tile in tiles]

    def gram_inputs(self, inputs: str, scale: str) -> list[str]:
        return [str(self.paths.gram_inputs(scale, inputs, matrix)) for matrix in (TRAIN, TEST)]

    def gram_dataset(self, inputs: str, scale: str) -> str:
        return str(self.paths.dataset(self.grams(scale).with_inputs(inputs).dataset))

    def gram_kernel(self, inputs: str, kernel: str, scale: str) -> str:
        """What a store is made of besides its images."""
        plan = self.grams(scale).stored(inputs, kernel)
        return repr((canonical(identity(plan.plan.kernel)), plan.tile))

    @cached_property
    def _cluster(self) -> Cluster:
        return Cluster.load(self.paths, load_unit_costs(self.paths))

    def part(self, wildcards: Any) -> Needs:
        """The job of a part, without what tables lend it and the matrices that jobs of their own compute."""
        key = (wildcards.artifact, wildcards.scale, wildcards.part)
        if key not in self._parts:  # a rule asks once for each of its resources
            self._parts[key] = self._part(*key)
        return self._parts[key]

    def _part(self, artifact: str, scale: str, part: str) -> Needs:
        one = self.catalogue.artifact(artifact)
        done_elsewhere = [tiled_work(plan) for plan in part_plans(one, scale, part)]
        own = part_work(one, scale, part, self.catalogue.used_by(one, scale))
        needs = self._needs(without(own, done_elsewhere), one.threads, one.name)
        # a submission of several parts would wait for itself if one of them took another's table
        waits = one.uses_at(scale) or any(one.name in other.uses_at(scale) for other in self.catalogue)
        return replace(needs, small=needs.small and not waits)

    def tile(self, wildcards: Any) -> Needs:
        """The job of one tile of a Gram matrix."""
        plan = self.grams(wildcards.scale).stored(wildcards.inputs, wildcards.kernel)
        return self._needs(tile_work(plan), plan.threads, plan.owner)

    def certificate(self, wildcards: Any) -> Needs:
        """The job that checks and certifies a Gram matrix; it uses no GPU."""
        plan = self.grams(wildcards.scale).stored(wildcards.inputs, wildcards.kernel)
        return self._needs(certificate_work(plan, wildcards.matrix), plan.threads, plan.owner)

    def _needs(self, work: Work | None, threads: int, what: str) -> Needs:
        needs = self._cluster.needs(work, threads, what)
        return replace(needs, gpus=0) if self.settings["device"] == "cpu" else needs

    def recipe(self, dataset: str) -> str:
        """What a data set is made of: its recipe, and what of its source is read."""
        if dataset not in self.recipes:
            raise UnknownName("data set", dataset, self.recipes, "`tangentbench data` shows all")
        source = self._sources[self.recipes[dataset].source]
        return repr((self.recipes[dataset], source.format, source.classes, source.contents, source.embedded))

    @cached_property
    def _sources(self) -> dict[str, Any]:
        return load_sources(self.paths)

    def study_code(self, wildcards: Any) -> str:
        """The code that measures an artifact at a scale; of tables of functions, the entries that its settings name."""
        artifact, scale = wildcards.artifact, wildcards.scale
        if (artifact, scale) not in self._study_codes:
            datasets = bool(self.catalogue.artifact(artifact).datasets_at(scale))
            code = self.fingerprints.measure(artifact, self.study_words(artifact, scale), datasets)
            self._study_codes[artifact, scale] = code
        return self._study_codes[artifact, scale]

    @cached_property
    def _study_codes(self) -> dict[tuple[str, str], str]:
        return {}

    def study_words(self, artifact: str, scale: str) -> frozenset[str]:
        """The strings that can reach a study function: its settings', its data sets', and of the tables it uses."""
        one = self.catalogue.artifact(artifact)
        words = words_in([one.settings_at(scale), one.datasets_at(scale)])
        for dataset in one.datasets_at(scale):
            words |= words_in(self._sources[self.recipes[dataset].source].classes)
        for used in one.uses_at(scale):
            datasets = bool(self.catalogue.artifact(used).datasets_at(scale))
            words |= self.fingerprints.measure_closure(used, self.study_words(used, scale), datasets).words
        return frozenset(words)

    def figure_code(self, artifact: str) -> str:
        return self.fingerprints.figure(artifact)

    def dataset_code(self, dataset: str) -> str:
        """The reader and the transforms that a data set's recipe names."""
        return self.fingerprints.step("dataset", self.dataset_words(dataset))

    def dataset_words(self, dataset: str) -> set[str]:
        recipe = self.recipes[dataset]
        return words_in([recipe.transforms, recipe.parameters, self._sources[recipe.source].format])

    def tile_code(self, wildcards: Any) -> str:
        """The code that computes the entries of a planned matrix."""
        return self._gram_code("gram_tile", wildcards)

    def certificate_code(self, wildcards: Any) -> str:
        return self._gram_code("gram_certificate", wildcards)

    def _gram_code(self, rule: str, wildcards: Any) -> str:
        plan = self.grams(wildcards.scale).stored(wildcards.inputs, wildcards.kernel)
        return self.fingerprints.step(rule, words_in([plan.plan.kernel, identity(plan.plan.kernel)]))

    def code(self, rule: str) -> str:
        return self.fingerprints.step(rule)

    def entry(self, artifact: str) -> str:
        """What of the catalogue a picture shows; an edit of the caption redraws, it never measures again."""
        one = self.catalogue.artifact(artifact)
        return repr((one.title, one.paper_values))

    def mirror_option(self) -> str:
        mirror = self.settings.get("data_mirror")
        return f"--mirror {shlex.quote(str(mirror))}" if mirror else ""

    def whole_catalogue(self) -> str:
        """A digest of all studies: any edit of the catalogue renews the gallery page."""
        return hashlib.sha256(repr(self.catalogue.studies).encode()).hexdigest()[:16]

    def claims_entry(self, study: str) -> str:
        return repr([artifact.claims for artifact in self.catalogue.studies[study].artifacts.values()])
