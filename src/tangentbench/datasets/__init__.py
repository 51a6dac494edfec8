"""Data sets as a study imports them: arrays, the files they are kept in, and choices of their examples."""

from tangentbench.datasets.dataset import Dataset
from tangentbench.datasets.store import load_dataset, save_dataset

__all__ = ["Dataset", "load_dataset", "save_dataset"]
