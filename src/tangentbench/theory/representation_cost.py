"""The L2-penalised loss written in the hidden representations, and in their covariances (thesis 5.3).

A network of L layers of weights maps the inputs Z_0^s to Z_l = W_l Z_(l-1)^s, where Z^s = (sigma(Z), beta 1^T) carries
the activations of a layer and, in its last row, the amount of bias. Columns are examples, rows are neurons. Its loss is
C(Z_L) + lambda sum_l ||W_l||_F^2. Of all weights that give the same representations W_l = Z_l (Z_(l-1)^s)^+ has the
smallest norm, so that the loss can be written in the representations alone (Proposition 5.3.1), and through
||Z_l (Z_(l-1)^s)^+||_F^2 = Tr[K_l (K_(l-1)^s)^+] in their covariances (Proposition 5.3.3).

With `tikhonov` = tau > 0 every (K^s)^+ becomes (K^s + tau 1)^-1. This is the least of ||W||^2 + ||W Z^s - Z||^2 / tau
over W: the representations need no longer fit the layer below exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RANK_CUT = 1e-10
"""Eigenvalues of a covariance below this share of the largest count as zero."""


def activated(z: Array, bias: float) -> Array:
    """Z^s, shape (n + 1, N), of pre-activations Z (n, N) under the ReLU."""
    return np.vstack([np.maximum(z, 0.0), np.full((1, z.shape[1]), bias)])


def covariance(rows: Array) -> Array:
    """K = Z^T Z, shape (N, N), of Z (n, N)."""
    return np.asarray(rows.T @ rows)


def inverse(k: Array, tikhonov: float = 0.0) -> Array:
    """K^+ of a symmetric non-negative K, or (K + tau 1)^-1 where tau is positive."""
    if tikhonov > 0:
        return np.asarray(np.linalg.inv(k + tikhonov * np.eye(len(k))))
    return np.asarray(np.linalg.pinv(k, rcond=RANK_CUT, hermitian=True))


def fitting_weights(z: Array, below: Array) -> Array:
    """W = Z (Z^s)^+, shape (n, m), the smallest weights that take Z^s (m, N) to Z (n, N)."""
    return z @ np.linalg.pinv(below, rcond=RANK_CUT**0.5)


def multiplicative_distance(z: Array, below: Array, tikhonov: float = 0.0) -> float:
    """||Z (Z^s)^+||_F^2 between Z (n, N) and the activations Z^s (m, N) below it."""
    return trace_distance(covariance(z), covariance(below), tikhonov)


def trace_distance(k: Array, k_below: Array, tikhonov: float = 0.0) -> float:
    """Tr[K (K^s)^+], the same in covariances (N, N)."""
    return float(np.sum(k * inverse(k_below, tikhonov)))


def penalty_of_representations(inputs: Array, hidden: Sequence[Array], bias: float, tikhonov: float = 0.0) -> float:
    """sum_l ||Z_l (Z_(l-1)^s)^+||_F^2 of Z_1, ..., Z_L above the inputs Z_0^s (Proposition 5.3.1, over lambda)."""
    below = [inputs, *(activated(z, bias) for z in hidden[:-1])]
    return sum(multiplicative_distance(z, under, tikhonov) for z, under in zip(hidden, below, strict=True))


def penalty_of_covariances(input_covariance: Array, pairs: Sequence[tuple[Array, Array]], output: Array) -> float:
    """sum_l Tr[K_l (K_(l-1)^s)^+] of the pairs (K_l, K_l^s) and the outputs Z_L (Proposition 5.3.3, over lambda)."""
    above = [*(k for k, _ in pairs), covariance(output)]
    below = [input_covariance, *(k_s for _, k_s in pairs)]
    return sum(trace_distance(k, under) for k, under in zip(above, below, strict=True))


def attraction(z: Array, below: Array, tikhonov: float = 0.0) -> Array:
    """d/dZ ||Z (Z_below^s)^+||_F^2, shape (n, N): the layer below draws Z, against this, towards the origin."""
    return 2.0 * z @ inverse(covariance(below), tikhonov)


def repulsion(z: Array, above: Array, bias: float, tikhonov: float = 0.0) -> Array:
    """d/dZ ||Z_above (Z^s)^+||_F^2, shape (n, N): the layer above pushes Z away from the origin."""
    inverted = inverse(covariance(activated(z, bias)), tikhonov)
    pushed = np.maximum(z, 0.0) @ inverted @ covariance(above) @ inverted
    return np.asarray(-2.0 * (z > 0) * pushed)


@dataclass(frozen=True, eq=False)
class TrainedWeights:
    """A trained network: weights W_l (n_l, n_(l-1) + 1), and what the inputs Z_0^s (d, N) make of them."""

    weights: Sequence[Array]
    inputs: Array
    bias: float
    cost_gradient: Array
    """dC/dZ_L, shape (n_L, N)."""

    @property
    def representations(self) -> list[Array]:
        """Z_1, ..., Z_L."""
        hidden = [self.weights[0] @ self.inputs]
        for layer in self.weights[1:]:
            hidden.append(layer @ activated(hidden[-1], self.bias))
        return hidden

    @property
    def activations(self) -> list[Array]:
        """Z_0^s, ..., Z_(L-1)^s, what each layer of weights is given."""
        return [self.inputs, *(activated(z, self.bias) for z in self.representations[:-1])]

    def cost_gradients(self) -> list[Array]:
        """G_l = dC/dZ_l through the network, for every layer."""
        gradients = [self.cost_gradient]
        hidden = self.representations
        for layer, z in zip(reversed(self.weights[1:]), reversed(hidden[:-1]), strict=True):
            gradients.append((z > 0) * (layer[:, :-1].T @ gradients[-1]))
        return gradients[::-1]

    def loss_gradients(self, penalty: float) -> list[Array]:
        """dL/dW_l of the penalised loss, for every layer."""
        given = zip(self.cost_gradients(), self.activations, self.weights, strict=True)
        return [gradient @ below.T + 2 * penalty * layer for gradient, below, layer in given]

    def forces(self, layer: int, tikhonov: float = 0.0) -> tuple[Array, Array]:
        """Attraction and repulsion of the hidden layer Z_l, l = 1, ..., L - 1; each (n_l, N)."""
        hidden = self.representations
        drawn = attraction(hidden[layer - 1], self.activations[layer - 1], tikhonov)
        return drawn, repulsion(hidden[layer - 1], hidden[layer], self.bias, tikhonov)

    def reaction(self, layer: int, penalty: float, tikhonov: float = 0.0) -> Array:
        """What holds Z_l where the two forces alone do not cancel, shape (n_l, N).

        Proposition 5.3.1 keeps the rows of Z_(l+1) in the row space of Z_l^s. Where that is not all of R^N the
        derivative of the repulsive term knows nothing of directions that leave it. With P_l the projector on the row
        space of Z_l^s, stationary weights (2 lambda W_l = -G_l Z_(l-1)^sT) give

            attraction = -G_l P_(l-1) / lambda,    repulsion = sigma'(Z_l) * (W_(l+1)^T G_(l+1) P_l) / lambda,

        whose sum vanishes where both projectors are the identity. The reaction is minus that sum.
        """
        gradients, below = self.cost_gradients(), self.activations
        z, above = self.representations[layer - 1], self.weights[layer][:, :-1]
        lower, upper = (projector(covariance(below[index]), tikhonov) for index in (layer - 1, layer))
        held = gradients[layer - 1] @ lower - (z > 0) * (above.T @ gradients[layer] @ upper)
        return np.asarray(held / penalty)


def projector(k: Array, tikhonov: float = 0.0) -> Array:
    """K^+ K, the projector on the row space behind K, or what Tikhonov's inverse makes of it."""
    return inverse(k, tikhonov) @ k
