"""A fitted kernel predictor: f(x) = sum over i of k(x, x_i) alpha_i, and the coding of class labels as targets."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tangentbench.atomic import read_json, sha256, write_json, written_whole
from tangentbench.errors import ResultUnreadable, StoreMismatch, UnfitArray
from tangentbench.gram.limits import require_memory
from tangentbench.gram.matrix import DenseMatrix, Float64, Matrix
from tangentbench.gram.store import Gram
from tangentbench.shapes import CodedLabels, LabelsLike, RowsLike

OFFSET = -0.1
"""The papers' coding of class c of C is OFFSET 1 + e_c: 0.9 at the class, -0.1 elsewhere."""


def code_labels(labels: LabelsLike, classes: int | None = None) -> CodedLabels:
    """-0.1 1 + e_c for labels (n,) in 0 .. classes - 1, shape (n, classes) (CNTK paper, section 5)."""
    labels = np.asarray(labels)
    if labels.ndim != 1 or labels.dtype.kind not in "iub" or labels.size == 0:
        raise UnfitArray(f"labels have shape {labels.shape} and type {labels.dtype}: give whole numbers of shape (n,)")
    classes = int(labels.max()) + 1 if classes is None else classes
    if labels.min() < 0 or labels.max() >= classes:
        raise UnfitArray(
            f"labels run from {labels.min()} to {labels.max()}: with {classes} classes give 0 to {classes - 1}"
        )
    require_memory(
        f"the coding of {classes} classes", 8.0 * len(labels) * classes, None, "number the classes 0, 1, 2 and so on"
    )
    coded = np.full((len(labels), classes), OFFSET)
    coded[np.arange(len(labels)), labels.astype(np.intp)] += 1.0
    return coded


@dataclass(frozen=True)
class Predictor:
    """alpha (n, m) with (K + (ridge + jitter) I) alpha = targets, and how it was found.

    kernel, train_sha256: the settings and inputs of the store it was fitted on (empty for a plain array);
    residual: the largest |targets - (K + ...) alpha| / |targets| of the m columns, measured in float64.
    """

    coefficients: Float64
    ridge: float
    jitter: float = 0.0
    method: str = ""
    residual: float = 0.0
    iterations: int = 0
    smallest_pivot: float | None = None
    seconds: float = 0.0
    kernel: dict[str, Any] = field(default_factory=dict)
    train_sha256: str = ""

    def scores(self, test_gram: Matrix | RowsLike) -> Float64:
        """f at t inputs, shape (t, m), from their kernel against the training inputs, (t, n)."""
        matrix = test_gram if isinstance(test_gram, Matrix) else DenseMatrix(test_gram, symmetric=False)
        if matrix.shape[1] != len(self.coefficients):
            raise UnfitArray(
                f"the test Gram matrix has {matrix.shape[1]} columns and the predictor was fitted on "
                f"{len(self.coefficients)} inputs: compute it against these"
            )
        if isinstance(matrix, Gram) and self.train_sha256:
            if matrix.column_inputs.sha256 != self.train_sha256:
                raise StoreMismatch(matrix.folder, "its columns are other inputs than the fitted ones", "recompute it")
            if matrix.kernel != self.kernel:
                raise StoreMismatch(
                    matrix.folder, f"kernel {matrix.kernel} there, {self.kernel} fitted", "recompute it"
                )
        return matrix.matmul(self.coefficients)

    def classify(self, test_gram: Matrix | ArrayLike) -> NDArray[np.intp]:
        """The class with the largest score, shape (t,)."""
        classes: NDArray[np.intp] = np.argmax(self.scores(test_gram), axis=1)
        return classes

    def accuracy(self, test_gram: Matrix | ArrayLike, labels: ArrayLike) -> float:
        return share_right(self.classify(test_gram), labels)

    def save(self, path: Path | str) -> None:
        """PATH.npz with the coefficients and PATH.json with everything else and the checksum of the first."""
        arrays, record = files_of(path)
        with written_whole(arrays) as temporary, temporary.open("wb") as stream:
            np.savez(stream, coefficients=self.coefficients)
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "coefficients"}
        write_json(record, {**values, "coefficients_sha256": sha256(arrays)})

    @classmethod
    def load(cls, path: Path | str) -> Predictor:
        arrays, record = files_of(path)
        try:
            values = read_json(record)
            content = arrays.read_bytes()
            if sha256(arrays) != values.pop("coefficients_sha256"):
                raise ResultUnreadable(arrays, f"its checksum is not the one in {record.name}")
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                return cls(coefficients=stored["coefficients"], **values)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ResultUnreadable(arrays, str(error)) from error


def files_of(path: Path | str) -> tuple[Path, Path]:
    path = Path(path)
    base = path.with_suffix("") if path.suffix in (".npz", ".json") else path
    return base.with_name(base.name + ".npz"), base.with_name(base.name + ".json")


def share_right(predictions: NDArray[Any], labels: ArrayLike) -> float:
    labels = np.asarray(labels)
    if labels.shape != predictions.shape:
        raise UnfitArray(f"there are {predictions.shape} predictions and {labels.shape} labels: give one label each")
    return float((predictions == labels).mean())
