"""What Snakemake's rules ask: the files of each stage, the settings behind them, the code behind those."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tangentbench.config import SCALES, load_settings
from tangentbench.datasets.prepare.recipes import load_recipes
from tangentbench.datasets.prepare.sources import load_sources
from tangentbench.errors import UnknownName
from tangentbench.gram.plans import TEST, TRAIN, GramPlan
from tangentbench.paths import Paths
from tangentbench.suite.catalogue import Catalogue, load_catalogue
from tangentbench.suite.costs import load_unit_costs, part_work, without
from tangentbench.suite.fingerprint import Fingerprints, words_in
from tangentbench.suite.gram_costs import certificate_work, tile_work, tiled_work
from tangentbench.suite.gram_plans import Grams, part_plans
from tangentbench.suite.needs import Cluster, Needs


@dataclass(frozen=True)
class Wiring:
    """The catalogue seen from the workflow; paths are relative, as Snakemake runs in the checkout."""

    catalogue: Catalogue
    settings: Mapping[str, Any]
    recipes: Mapping[str, Any]
    paths: Paths
    fingerprints: Fingerprints = field(default_factory=Fingerprints)

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
        for scale in SCALES:
            for owner, plans in self.grams(scale).plans.items():
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
        parts = self.catalogue.artifact(artifact).parts_at(scale)
        if part not in parts:
            raise UnknownName(f"part of {artifact} at scale {scale}", part, parts)
        return parts[part]

    def datasets(self, artifact: str, scale: str) -> list[str]:
        return [str(self.paths.dataset(name)) for name in self.catalogue.artifact(artifact).datasets_at(scale)]

    def used_tables(self, artifact: str, scale: str) -> list[str]:
        used = self.catalogue.used_by(self.catalogue.artifact(artifact), scale)
        return [str(self.paths.table(scale, one.study, one.name)) for one in used]

    @cached_property
    def _grams(self) -> dict[str, Grams]:
        return {scale: Grams.at(self.paths, self.catalogue, scale) for scale in SCALES}

    def grams(self, scale: str) -> Grams:
        return self._grams[scale]

    def used_grams(self, artifact: str, scale: str, part: str) -> list[str]:
        """The certificates of the matrices that a part takes as inputs."""
        plans = part_plans(self.catalogue.artifact(artifact), scale, part)
        return [file for plan in plans for file in self.plan_certificates(plan, scale)]

    def certificates(self, owner: str, scale: str) -> list[str]:
        return [file for plan in self.grams(scale).of(owner).values() for file in self.plan_certificates(plan, scale)]

    def plan_certificates(self, plan: GramPlan, scale: str) -> list[str]:
        folder = self.paths.gram(scale, plan.owner, plan.name)
        return [str(folder / matrix / "certificate.json") for matrix in plan.plan.matrices]

    def tiles(self, owner: str, name: str, matrix: str, scale: str) -> list[str]:
        folder = self.paths.gram(scale, owner, name) / matrix / "tiles"
        return [str(folder / f"{tile}.npy") for tile in self.grams(scale).plan(owner, name).tiles(matrix)]

    def gram_inputs(self, owner: str, name: str, scale: str) -> list[str]:
        inputs = self.grams(scale).plan(owner, name).inputs
        return [str(self.paths.gram_inputs(scale, inputs, matrix)) for matrix in (TRAIN, TEST)]

    def gram_dataset(self, inputs: str, scale: str) -> str:
        return str(self.paths.dataset(self.grams(scale).with_inputs(inputs).dataset))

    def gram_kernel(self, owner: str, name: str, scale: str) -> str:
        """What a store is made of besides its images."""
        plan = self.grams(scale).plan(owner, name)
        return repr((sorted(plan.plan.kernel.items()), plan.tile))

    def gram_threads(self, owner: str, name: str, scale: str) -> int:
        return self.grams(scale).plan(owner, name).threads

    @cached_property
    def _cluster(self) -> Cluster:
        return Cluster.load(self.paths, load_unit_costs(self.paths))

    def part_needs(self, wildcards: Any) -> Needs:
        """What the job of a part asks for, without what tables lend and the matrices that jobs of their own compute."""
        one, scale, part = self.catalogue.artifact(wildcards.artifact), wildcards.scale, wildcards.part
        done_elsewhere = [tiled_work(plan) for plan in part_plans(one, scale, part)]
        own = part_work(one, scale, part, self.catalogue.used_by(one, scale))
        return self._cluster.needs(without(own, done_elsewhere), one.threads, one.name)

    def part_memory(self, wildcards: Any, attempt: int) -> int:
        return attempt * self.part_needs(wildcards).memory_mb

    def part_minutes(self, wildcards: Any) -> int:
        return self.part_needs(wildcards).minutes

    def part_gpus(self, wildcards: Any) -> int:
        return self.wanted_gpus(self.part_needs(wildcards))

    def wanted_gpus(self, needs: Needs) -> int:
        return 0 if self.settings["device"] == "cpu" else needs.gpus

    def part_group(self, wildcards: Any) -> str:
        """Small parts share a submission; not those of artifacts that wait for each other's tables."""
        name, scale = wildcards.artifact, wildcards.scale
        alone = self.catalogue.artifact(name).uses_at(scale) or any(
            name in one.uses_at(scale) for one in self.catalogue
        )
        return "part" if alone or not self.part_needs(wildcards).small else "small_part"

    def tile_needs(self, wildcards: Any) -> Needs:
        plan = self.grams(wildcards.scale).plan(wildcards.gram, wildcards.kernel)
        return self._cluster.needs(tile_work(plan), plan.threads, wildcards.gram)

    def tile_memory(self, wildcards: Any, attempt: int) -> int:
        return attempt * self.tile_needs(wildcards).memory_mb

    def tile_minutes(self, wildcards: Any) -> int:
        return self.tile_needs(wildcards).minutes

    def tile_gpus(self, wildcards: Any) -> int:
        return self.wanted_gpus(self.tile_needs(wildcards))

    def tile_group(self, wildcards: Any) -> str:
        return "small_tile" if self.tile_needs(wildcards).small else "tile"

    def certificate_needs(self, wildcards: Any) -> Needs:
        plan = self.grams(wildcards.scale).plan(wildcards.gram, wildcards.kernel)
        return self._cluster.needs(certificate_work(plan, wildcards.matrix), plan.threads, wildcards.gram)

    def certificate_memory(self, wildcards: Any, attempt: int) -> int:
        return attempt * self.certificate_needs(wildcards).memory_mb

    def certificate_minutes(self, wildcards: Any) -> int:
        return self.certificate_needs(wildcards).minutes

    def threads(self, artifact: str) -> int:
        return self.catalogue.artifact(artifact).threads

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
        recipe = self.recipes[dataset]
        words = words_in([recipe.transforms, recipe.parameters, self._sources[recipe.source].format])
        return self.fingerprints.step("dataset", words)

    def tile_code(self, wildcards: Any) -> str:
        """The code that computes the entries of a planned matrix."""
        return self._gram_code("gram_tile", wildcards)

    def certificate_code(self, wildcards: Any) -> str:
        return self._gram_code("gram_certificate", wildcards)

    def _gram_code(self, rule: str, wildcards: Any) -> str:
        plan = self.grams(wildcards.scale).plan(wildcards.gram, wildcards.kernel)
        return self.fingerprints.step(rule, words_in(plan.plan.kernel))

    def code(self, rule: str) -> str:
        return self.fingerprints.step(rule)

    def entry(self, artifact: str) -> str:
        """What of the catalogue a picture shows; an edit of the caption redraws, it never measures again."""
        one = self.catalogue.artifact(artifact)
        return repr((one.title, one.paper_values))

    def mirror_option(self) -> str:
        mirror = self.settings.get("data_mirror")
        return f"--mirror '{mirror}'" if mirror else ""

    def whole_catalogue(self) -> str:
        """A digest of all studies: any edit of the catalogue renews the gallery page."""
        return hashlib.sha256(repr(self.catalogue.studies).encode()).hexdigest()[:16]

    def claims_entry(self, study: str) -> str:
        return repr([artifact.claims for artifact in self.catalogue.studies[study].artifacts.values()])
