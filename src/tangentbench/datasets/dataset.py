"""What a data set is: arrays for training and testing, the names of the classes, and where it all came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Inputs: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int64] | NDArray[np.float32]

ARRAYS = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and labels, split into train and test.

    x_train, x_test: float32, images (n, height, width, channels) or vectors (n, d). Pixels are in [0, 1] until a
        transform moves them.
    y_train, y_test: int64 (n,), positions in `classes`; or float32 (n, k) targets of a regression, with no classes.
    The test arrays may be empty.
    """

    name: str
    x_train: Inputs
    y_train: Labels
    x_test: Inputs
    y_test: Labels
    classes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for x, y in ((self.x_train, self.y_train), (self.x_test, self.y_test)):
            if x.dtype != np.float32 or x.ndim not in (2, 4):
                raise ValueError(f"{self.name}: inputs must be float32 (n, d) or (n, h, w, c), not {x.dtype} {x.shape}")
            if len(x) != len(y):
                raise ValueError(f"{self.name}: {len(x)} inputs but {len(y)} labels")
            if y.ndim != {np.dtype(np.int64): 1, np.dtype(np.float32): 2}.get(y.dtype):
                raise ValueError(f"{self.name}: labels must be int64 (n,) or float32 (n, k), not {y.dtype} {y.shape}")
            if y.dtype == np.int64 and len(y) and not (y.min() >= 0 and y.max() < len(self.classes)):
                raise ValueError(f"{self.name}: labels {y.min()} to {y.max()} do not fit {len(self.classes)} classes")
        if self.x_train.shape[1:] != self.x_test.shape[1:]:
            raise ValueError(f"{self.name}: train inputs {self.x_train.shape}, test inputs {self.x_test.shape}")

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(height, width, channels) of an image or (d,) of a vector."""
        return self.x_train.shape[1:]

    def with_inputs(self, x_train: NDArray[Any], x_test: NDArray[Any]) -> Dataset:
        """The same labels with other inputs."""
        return replace(self, x_train=contiguous(x_train), x_test=contiguous(x_test))

    def noting(self, **facts: Any) -> Dataset:
        """The same data with `facts` added to the provenance."""
        return replace(self, provenance={**self.provenance, **facts})

    def class_counts(self) -> dict[str, dict[str, int]]:
        """How many examples each class has, in train and in test; empty for a regression."""
        return {
            split: dict(zip(self.classes, np.bincount(y, minlength=len(self.classes)).tolist(), strict=True))
            for split, y in (("train", self.y_train), ("test", self.y_test))
            if y.dtype == np.int64
        }


def contiguous(x: NDArray[Any]) -> Inputs:
    return np.ascontiguousarray(x, dtype=np.float32)
