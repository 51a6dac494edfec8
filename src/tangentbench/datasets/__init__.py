"""Data sets: sources with their checksums, transforms, and the files they are kept in."""

from tangentbench.datasets.availability import Availability, availability
from tangentbench.datasets.dataset import Dataset
from tangentbench.datasets.prepare import prepare
from tangentbench.datasets.recipes import Recipe, load_recipes
from tangentbench.datasets.sources import Source, load_sources
from tangentbench.datasets.store import load_dataset, save_dataset
from tangentbench.datasets.transforms import known_transforms

__all__ = [
    "Availability",
    "Dataset",
    "Recipe",
    "Source",
    "availability",
    "known_transforms",
    "load_dataset",
    "load_recipes",
    "load_sources",
    "prepare",
    "save_dataset",
]
