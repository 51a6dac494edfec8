"""What a regression gives back: one outcome per ridge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tangentbench.errors import TangentbenchError
from tangentbench.gram.matrix import Float64, Matrix
from tangentbench.solvers.predictor import Predictor, share_right


@dataclass(frozen=True)
class Outcome:
    """One ridge: the predictor and, if there was a test matrix, its scores (t, m), classes (t,) and accuracy."""

    predictor: Predictor
    scores: Float64 | None = None
    predictions: NDArray[np.intp] | None = None
    accuracy: float | None = None


@dataclass(frozen=True)
class Regression:
    """The outcomes of a ridge path, in the order in which the ridges were given."""

    path: tuple[Outcome, ...]

    @property
    def best(self) -> Outcome:
        """The outcome with the highest test accuracy, the first one where none was measured."""
        return max(self.path, key=lambda outcome: -1.0 if outcome.accuracy is None else outcome.accuracy)

    @property
    def only(self) -> Outcome:
        if len(self.path) != 1:
            raise TangentbenchError(f"a path of {len(self.path)} ridges has no single outcome: choose one of its path")
        return self.path[0]

    @property
    def predictor(self) -> Predictor:
        return self.only.predictor

    @property
    def scores(self) -> Float64 | None:
        return self.only.scores

    @property
    def predictions(self) -> NDArray[np.intp] | None:
        return self.only.predictions

    @property
    def accuracy(self) -> float | None:
        return self.only.accuracy


def outcome_of(predictor: Predictor, test_gram: Matrix | ArrayLike | None, test_labels: ArrayLike | None) -> Outcome:
    if test_gram is None:
        return Outcome(predictor)
    scores = predictor.scores(test_gram)
    if scores.shape[1] == 1:
        return Outcome(predictor, scores)
    predictions = np.argmax(scores, axis=1)
    accuracy = None if test_labels is None else share_right(predictions, test_labels)
    return Outcome(predictor, scores, predictions, accuracy)
