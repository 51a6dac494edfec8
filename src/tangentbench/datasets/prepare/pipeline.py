"""From a recipe to a data set."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tangentbench import __version__
from tangentbench.datasets.dataset import Dataset
from tangentbench.datasets.prepare.readers import read_source
from tangentbench.datasets.prepare.recipes import DatasetRecipe, load_recipes
from tangentbench.datasets.prepare.sources import Source, load_sources
from tangentbench.datasets.prepare.transforms import apply
from tangentbench.errors import InvalidConfig, UnknownName
from tangentbench.paths import Paths


def prepare(recipe_name: str, paths: Paths, mirror: Path | None, seed: int, progress: bool) -> Dataset:
    """Find or fetch the source of a recipe, read it, and run the recipe's transforms.

    mirror: a folder that holds published files; TANGENTBENCH_DATA goes before it.
    seed: the root of the random numbers of synthetic sources and of subsets.
    progress: show bars in a terminal.
    """
    from threadpoolctl import threadpool_limits

    recipes = load_recipes(paths)
    if recipe_name not in recipes:
        raise UnknownName("data set", recipe_name, recipes, "`tangentbench data` shows all")
    recipe = recipes[recipe_name]
    source = load_sources(paths)[recipe.source]
    # The number of threads changes the order in which sums are rounded, and with it the bytes of a whitened set.
    with threadpool_limits(1, user_api="blas"):
        try:
            dataset = read_source(source, recipe.parameters, paths, mirror, stream(seed, 0), progress)
        except ValueError as error:
            raise InvalidConfig(paths.datasets, f"datasets.{recipe_name}", str(error)) from error
        dataset = transformed(dataset, recipe, paths, seed, progress)
    return replace(dataset, name=recipe_name).noting(**origin(recipe, source, seed))


def transformed(dataset: Dataset, recipe: DatasetRecipe, paths: Paths, seed: int, progress: bool) -> Dataset:
    from tqdm import tqdm

    bar = tqdm(recipe.transforms, desc=f"transforming {recipe.name}", disable=None if progress else True)
    for position, (name, settings) in enumerate(bar):
        bar.set_postfix_str(name)
        try:
            dataset = apply(dataset, name, settings, stream(seed, 1 + position))
        except ValueError as error:
            key = f"datasets.{recipe.name}.transforms.{position}.{name}"
            raise InvalidConfig(paths.datasets, key, str(error)) from error
    return dataset


def stream(seed: int, step: int) -> np.random.Generator:
    """Random numbers of one step, the same whatever the other steps draw."""
    return np.random.default_rng([seed, step])


def origin(recipe: DatasetRecipe, source: Source, seed: int) -> dict[str, Any]:
    """What made the data set, for the provenance."""
    about = {key: getattr(source, key) for key in ("name", "title", "homepage", "licence", "citation")}
    return {
        "description": recipe.description,
        "source": {key: value for key, value in about.items() if value},
        "parameters": dict(recipe.parameters),
        "transforms": [{name: dict(settings)} for name, settings in recipe.transforms],
        "seed": seed,
        "versions": {
            "tangentbench": __version__,
            "numpy": np.__version__,
            **({"pillow": importlib.metadata.version("pillow")} if source.format == "photographs" else {}),
        },
    }
