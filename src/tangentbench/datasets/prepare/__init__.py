"""From published bytes to a data set: what only the data rule and the command line import."""

from tangentbench.datasets.prepare.availability import Availability, availability
from tangentbench.datasets.prepare.pipeline import prepare
from tangentbench.datasets.prepare.recipes import DatasetRecipe, load_recipes
from tangentbench.datasets.prepare.sources import Source, load_sources
from tangentbench.datasets.prepare.transforms import TRANSFORMS

__all__ = [
    "TRANSFORMS",
    "Availability",
    "DatasetRecipe",
    "Source",
    "availability",
    "load_recipes",
    "load_sources",
    "prepare",
]
