"""The two sentences of A.13 as sequences of word vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tangentbench.datasets import Dataset
from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.studies.registry import Context
from tangentbench.theory.sequences import Sequences

EMBEDDINGS = ("random", "glove")
WORD_STREAM = 100
"""Tells the stream of the random word vectors from those of the weights."""


def sentences_as_sequences(
    context: Context, sentences: Sequence[str], embedding: str, embedding_dimension: int
) -> Sequences:
    """One sequence a sentence; a word has the same vector wherever it stands, in capitals or not."""
    if embedding not in EMBEDDINGS:
        raise UnknownName("embedding", embedding, EMBEDDINGS)
    words = [sentence.lower().split() for sentence in sentences]
    known = sorted({word for sentence in words for word in sentence})
    if embedding == "random":
        vectors = np.random.default_rng([context.seed, WORD_STREAM]).standard_normal((len(known), embedding_dimension))
        table = dict(zip(known, vectors, strict=True))
    else:
        table = published_vectors(context.dataset, known, embedding_dimension)
    return Sequences.of([np.stack([table[word] for word in sentence]) for sentence in words])


def published_vectors(dataset: Dataset, words: Sequence[str], dimension: int) -> dict[str, np.ndarray]:
    """A word vector data set has a class a word."""
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
