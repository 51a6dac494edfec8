"""How many square matrices the networks of sequence.py have; light, because estimates use it."""

from __future__ import annotations

_PER_LAYER = {"rnn": 1, "gru": 3, "transformer": 2}


def square_matrices(architecture: str, depth: int = 1) -> int:
    """Matrices with the width on both sides, in `depth` layers (of a transformer; recurrent networks have one)."""
    return _PER_LAYER[architecture] * depth
