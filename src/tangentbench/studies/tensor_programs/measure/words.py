"""The two sentences of A.13 as sequences of word vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tangentbench.datasets import Dataset
from tangentbench.errors import TangentbenchError
from tangentbench.studies.registry import Context
from tangentbench.studies.tensor_programs.settings import StateKernels
from tangentbench.theory.sequences import Sequences

_WORD_STREAM = 100
"""Tells the stream of the random word vectors from those of the weights."""


def sentences_as_sequences(context: Context, settings: StateKernels) -> Sequences:
    """One sequence per sentence; a word has the same vector wherever it occurs, in capitals or not."""
    words = [sentence.lower().split() for sentence in settings.sentences]
    known = sorted({word for sentence in words for word in sentence})
    if settings.embedding == "random":
        generator = np.random.default_rng([context.seed, _WORD_STREAM])
        vectors = generator.standard_normal((len(known), settings.embedding_dimension))
        table = dict(zip(known, vectors, strict=True))
    else:
        table = _published_vectors(context.dataset, known, settings.embedding_dimension)
    return Sequences.of([np.stack([table[word] for word in sentence]) for sentence in words])


def _published_vectors(dataset: Dataset, words: Sequence[str], dimension: int) -> dict[str, np.ndarray]:
    """A data set of word vectors has one class per word."""
    table = dict(zip(dataset.classes, dataset.x_train, strict=True))
    if missing := [word for word in words if word not in table]:
        raise TangentbenchError(
            f"the word vectors {dataset.name} lack {', '.join(missing)}: add them to its words in config/datasets.yaml"
        )
    if dataset.x_train.shape[1] != dimension:
        raise TangentbenchError(
            f"the word vectors {dataset.name} have {dataset.x_train.shape[1]} dimensions, not {dimension}: "
            "set embedding_dimension to that"
        )
    return {word: np.asarray(table[word], dtype=float) for word in words}
