"""Paths of a gated fully connected network: activity, features, values, and how many of them two inputs share.

A path starts at an input node, passes through one unit of every hidden layer and ends at the single output. A network
of `d` layers of weights has d_in w_1 ... w_(d-1) of them, so enumeration is for small networks; `path_overlap` needs no
enumeration and serves networks of any size.

Layers are lists: `gates[l]` (n, w_l) holds the gates of hidden layer l+1, `weights[l]` (w_(l), w_(l+1)) maps layer l to
layer l+1, with the inputs first and one output last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Paths = NDArray[np.intp]


def enumerate_paths(inputs: int, widths: Sequence[int]) -> Paths:
    """All paths as rows (I_0(p), ..., I_(d-1)(p)) of node numbers from 0, shape (P, d).

    The last hidden layer runs fastest: all paths of the first input node come first, as in Figure 1.
    """
    axes = [np.arange(size) for size in (inputs, *widths)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def path_activity(gates: Sequence[ArrayLike], paths: Paths) -> Array:
    """A(x, p), the product of the gates along each path (Definition 2.1 i), shape (n, P)."""
    along = [np.asarray(layer, dtype=float)[:, paths[:, depth]] for depth, layer in enumerate(gates, start=1)]
    return np.asarray(np.multiply.reduce(along))


def path_features(inputs: ArrayLike, activity: Array, paths: Paths) -> Array:
    """phi(x), each path's input signal times its activity (Definition 2.1 ii); `inputs` (n, d_in), result (n, P)."""
    return np.asarray(inputs, dtype=float)[:, paths[:, 0]] * activity


def path_values(weights: Sequence[ArrayLike], paths: Paths) -> Array:
    """v, the product of the weights along each path (Definition 2.1 iii), shape (P,)."""
    output = np.zeros((len(paths), 1), dtype=np.intp)
    nodes = np.hstack([paths, output])
    along = [np.asarray(layer)[nodes[:, depth], nodes[:, depth + 1]] for depth, layer in enumerate(weights)]
    return np.asarray(np.multiply.reduce(along), dtype=float)


def shared_paths(activity: Array, inputs: int) -> Array:
    """Lambda(s, s') counted path by path: those active for both, a node of the input (Definition 2.2), shape (n, n)."""
    return np.asarray(activity @ activity.T / inputs)


def path_overlap(gates: Sequence[ArrayLike]) -> Array:
    """Lambda(s, s') as the product over hidden layers of the number of gates on for both, shape (n, n)."""
    layers = [np.asarray(layer, dtype=float) for layer in gates]
    return np.asarray(np.multiply.reduce([layer @ layer.T for layer in layers]))


def path_kernel(inputs: ArrayLike, gates: Sequence[ArrayLike]) -> Array:
    """The neural path kernel H = Sigma * Lambda of Lemma 2.1, without enumerating a path, shape (n, n)."""
    rows = np.asarray(inputs, dtype=float)
    return np.asarray((rows @ rows.T) * path_overlap(gates))


def gated_output(inputs: ArrayLike, weights: Sequence[ArrayLike], gates: Sequence[ArrayLike]) -> Array:
    """The network's output with the given gates, layer by layer (Table 1), shape (n,)."""
    hidden = np.asarray(inputs, dtype=float)
    for layer, gate in zip(weights[:-1], gates, strict=True):
        hidden = (hidden @ np.asarray(layer, dtype=float)) * np.asarray(gate, dtype=float)
    return np.asarray((hidden @ np.asarray(weights[-1], dtype=float))[:, 0])
