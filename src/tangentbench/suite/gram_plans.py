"""Every planned Gram matrix of a scale.

A plan comes from config/grams.yaml (a matrix anybody wants, target `gram_NAME`), or from an artifact whose catalogue
entry names `tile_jobs` for a scale; then the study's `gram_plans` make it of the artifact's settings. This module
stays light, Snakemake reads it at every start: no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tangentbench.config import load_checked
from tangentbench.datasets.choice import ImageChoice
from tangentbench.errors import InvalidConfig, TangentbenchError, UnknownName
from tangentbench.gram.identity import identity
from tangentbench.gram.plans import GramPlan, KernelPlan
from tangentbench.paths import Paths
from tangentbench.studies.registry import on_settings, plan_function
from tangentbench.suite.catalogue import Artifact, slug
from tangentbench.suite.part_datasets import part_datasets


def part_plans(artifact: Artifact, scale: str, part: str) -> list[GramPlan]:
    """The matrices that one part takes as inputs; none where the scale computes none tile by tile."""
    groups = artifact.tile_jobs_at(scale)
    if not groups:
        return []
    plans = on_settings(plan_function(artifact.study, artifact.name), artifact, artifact.parts_at(scale)[part])
    (dataset,) = part_datasets(artifact, scale, part)
    return [GramPlan(artifact.name, dataset, artifact.threads, plan) for plan in plans if plan.group in groups]


def artifact_plans(artifact: Artifact, scale: str) -> list[GramPlan]:
    """Every matrix of an artifact at a scale that is computed tile by tile."""
    if not artifact.tile_jobs_at(scale):
        return []
    return [plan for part in artifact.parts_at(scale) for plan in part_plans(artifact, scale, part)]


def declared_plans(paths: Paths, scale: str) -> dict[str, GramPlan]:
    """The matrices of config/grams.yaml at one scale, by name."""
    raw = load_checked(paths.grams, paths.schemas / "grams.schema.json")
    return {name: declared_plan(paths, name, entry, scale) for name, entry in raw["grams"].items()}


def declared_plan(paths: Paths, name: str, entry: Mapping[str, Any], scale: str) -> GramPlan:
    """`entry` with what its scale says on top; `kernel` and `images` are merged key by key."""
    at_scale = entry["scales"][scale]
    merged = {key: {**entry.get(key, {}), **at_scale.get(key, {})} for key in ("kernel", "images")}
    alone = {key: at_scale.get(key, entry.get(key)) for key in ("dataset", "tile", "threads")}
    where = f"grams.{name}"
    for key in ("dataset", "tile"):
        if alone[key] is None:
            raise InvalidConfig(paths.grams, where, f"'{key}' is missing for scale {scale}")
    try:
        images = ImageChoice(**merged["images"])
    except TypeError as error:
        raise InvalidConfig(paths.grams, f"{where}.images", f"{error} at scale {scale}") from None
    except TangentbenchError as error:
        raise InvalidConfig(paths.grams, f"{where}.images", str(error)) from None
    try:
        identity(merged["kernel"])
    except TangentbenchError as error:
        raise InvalidConfig(paths.grams, f"{where}.kernel", f"{error} (scale {scale})") from None
    plan = KernelPlan(slug(merged["kernel"]["name"]), name, images, merged["kernel"], int(alone["tile"]))
    return GramPlan(name, str(alone["dataset"]), int(alone["threads"] or 1), plan)


@dataclass(frozen=True)
class Grams:
    """Every planned matrix of one scale, by owner and name; and by what it is, images and kernel.

    Owners that mean the same matrix share it: the smallest of their tiles and the most of their threads are taken.
    """

    plans: Mapping[str, Mapping[str, GramPlan]]

    @classmethod
    def at(cls, paths: Paths, artifacts: Iterable[Artifact], scale: str) -> Grams:
        plans = {name: {plan.name: plan} for name, plan in declared_plans(paths, scale).items()}
        for artifact in artifacts:
            if found := artifact_plans(artifact, scale):
                if artifact.name in plans:
                    raise InvalidConfig(paths.grams, f"grams.{artifact.name}", "an artifact has this name")
                plans[artifact.name] = {plan.name: plan for plan in found}
        return cls(plans)

    def of(self, owner: str) -> Mapping[str, GramPlan]:
        if owner not in self.plans:
            raise UnknownName("Gram matrix", owner, self.plans, "config/grams.yaml holds them")
        return self.plans[owner]

    def plan(self, owner: str, name: str) -> GramPlan:
        plans = self.of(owner)
        if name not in plans:
            raise UnknownName(f"matrix of {owner}", name, plans)
        return plans[name]

    @cached_property
    def _stored(self) -> dict[tuple[str, str], GramPlan]:
        shared: dict[tuple[str, str], GramPlan] = {}
        for plan in (plan for plans in self.plans.values() for plan in plans.values()):
            other = shared.get((plan.inputs, plan.key), plan)
            tile, threads = min(plan.tile, other.tile), max(plan.threads, other.threads)
            shared[plan.inputs, plan.key] = replace(other, threads=threads, plan=replace(other.plan, tile=tile))
        return shared

    def stored(self, inputs: str, key: str) -> GramPlan:
        """The plan of the matrices in results/SCALE/grams/INPUTS/KEY."""
        if (inputs, key) not in self._stored:
            raise UnknownName("Gram matrix", f"{inputs}/{key}", ["/".join(one) for one in self._stored])
        return self._stored[inputs, key]

    @cached_property
    def _by_inputs(self) -> dict[str, GramPlan]:
        return {plan.inputs: plan for plans in self.plans.values() for plan in plans.values()}

    def with_inputs(self, inputs: str) -> GramPlan:
        """A plan that needs these images; all that do choose and prepare them alike."""
        if inputs not in self._by_inputs:
            raise UnknownName("choice of images", inputs, self._by_inputs)
        return self._by_inputs[inputs]
