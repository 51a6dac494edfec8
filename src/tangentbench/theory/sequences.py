"""Sequences of tokens one behind the other, as the kernels of recurrent networks and transformers see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Sequences:
    """M sequences with S tokens in all: `tokens` (S, d), `lengths` of the sequences in their order."""

    tokens: np.ndarray
    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if sum(self.lengths) != len(self.tokens) or min(self.lengths) < 1:
            raise ValueError(f"{len(self.tokens)} tokens are no sequences of the lengths {self.lengths}")

    @classmethod
    def of(cls, sequences: Sequence[np.ndarray]) -> Sequences:
        """From arrays (length, d)."""
        return cls(np.concatenate(sequences).astype(float), tuple(len(one) for one in sequences))

    @property
    def dimension(self) -> int:
        return int(self.tokens.shape[1])

    @cached_property
    def gram(self) -> np.ndarray:
        """x_i . x_j / d, shape (S, S)."""
        return np.asarray(self.tokens @ self.tokens.T / self.dimension)

    @cached_property
    def times(self) -> np.ndarray:
        """The place of each token in its sequence, from 0."""
        return np.concatenate([np.arange(length) for length in self.lengths])

    @cached_property
    def owners(self) -> np.ndarray:
        """The sequence of each token."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def previous(self) -> np.ndarray:
        """The token before each token, -1 at the beginning of a sequence."""
        return np.where(self.times > 0, np.arange(len(self.tokens)) - 1, -1)

    @cached_property
    def averages(self) -> np.ndarray:
        """(M, S): its product with values at tokens is their mean over each sequence."""
        belongs = self.owners[None, :] == np.arange(len(self.lengths))[:, None]
        return np.asarray(belongs / np.array(self.lengths)[:, None])

    def shifted(self, matrix: np.ndarray) -> np.ndarray:
        """The matrix (S, S) at the tokens before: entry (i, j) becomes that of (i - 1, j - 1), or 0 at a beginning."""
        inside = (self.previous >= 0)[:, None] & (self.previous >= 0)[None, :]
        return np.where(inside, matrix[np.ix_(self.previous, self.previous)], 0.0)

    def at_time(self, time: int) -> np.ndarray:
        """The tokens at this place of their sequences."""
        return np.flatnonzero(self.times == time)
