"""The L2-penalised loss in representations and in covariances: the propositions of thesis 5.3 as identities."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from tangentbench.theory.representation_cost import (
    Array,
    TrainedWeights,
    activated,
    attraction,
    covariance,
    fitting_weights,
    multiplicative_distance,
    penalty_of_covariances,
    penalty_of_representations,
    repulsion,
)

BIAS, PENALTY, EXAMPLES = 0.7, 0.02, 6
SIZES = (4, 5, 3, 2)


def network(seed: int, inputs: int = SIZES[0], examples: int = EXAMPLES) -> tuple[list[Array], Array, Array]:
    """Random weights W_1, ..., W_3, inputs Z_0^s and targets."""
    generator = np.random.default_rng(seed)
    sizes = (inputs, *SIZES[1:])
    weights = [generator.normal(size=(after, before + 1)) for before, after in pairwise(sizes)]
    data = np.vstack([generator.normal(size=(inputs, examples)), np.full((1, examples), BIAS)])
    return weights, data, generator.normal(size=(sizes[-1], examples))


def smooth_network(seed: int) -> tuple[list[Array], Array, Array]:
    """Positive weights, inputs and targets: most neurons stay active on all examples, and no minimum lies on a kink."""
    weights, inputs, targets = network(seed)
    inputs[:-1] = 0.5 + np.abs(inputs[:-1])
    return [0.5 * np.abs(layer) for layer in weights], inputs, 2.0 + 0.3 * targets


def trained(weights: list[Array], inputs: Array, targets: Array) -> TrainedWeights:
    """With the squared error C = ||Z_L - Y||^2 / N."""
    without = TrainedWeights(weights, inputs, BIAS, np.zeros_like(targets))
    gradient = 2 * (without.representations[-1] - targets) / targets.shape[1]
    return TrainedWeights(weights, inputs, BIAS, gradient)


def cost(output: Array, targets: Array) -> float:
    return float(np.sum((output - targets) ** 2) / targets.shape[1])


def squared_norm(weights: list[Array]) -> float:
    return float(sum(np.sum(layer**2) for layer in weights))


def minimised(weights: list[Array], inputs: Array, targets: Array) -> TrainedWeights:
    """A local minimum of the penalised loss, to rounding."""
    shapes = [layer.shape for layer in weights]
    ends = np.cumsum([layer.size for layer in weights])

    def split(flat: Array) -> list[Array]:
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]

    def value(flat: Array) -> tuple[float, Array]:
        net = trained(split(flat), inputs, targets)
        loss = cost(net.representations[-1], targets) + PENALTY * squared_norm(split(flat))
        return loss, np.concatenate([part.ravel() for part in net.loss_gradients(PENALTY)])

    flat = np.concatenate([layer.ravel() for layer in weights])
    for _ in range(3):
        flat = minimize(value, flat, jac=True, method="BFGS", options={"gtol": 1e-11, "maxiter": 4000}).x
    return trained(split(flat), inputs, targets)


def numerical(function: Callable[[Array], float], at: Array, step: float = 1e-6) -> Array:
    result = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        moved = at.copy()
        moved[place] += step
        high = function(moved)
        moved[place] -= 2 * step
        result[place] = (high - function(moved)) / (2 * step)
    return result


@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_those_of_the_penalised_loss(seed: int) -> None:
    weights, inputs, targets = network(seed)
    for place, gradient in enumerate(trained(weights, inputs, targets).loss_gradients(PENALTY)):

        def loss(layer: Array, place: int = place) -> float:
            moved = [layer if position == place else own for position, own in enumerate(weights)]
            return cost(trained(moved, inputs, targets).representations[-1], targets) + PENALTY * squared_norm(moved)

        np.testing.assert_allclose(gradient, numerical(loss, weights[place]), atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_representations_never_cost_more_than_the_weights_they_come_from(seed: int) -> None:
    """L^r(Phi(W)) < L(W) unless W = Psi(Z), and L(Psi(Z)) = L^r(Z) (proof of Proposition C.2.1)."""
    weights, inputs, targets = network(seed, examples=3)
    net = trained(weights, inputs, targets)
    hidden = net.representations
    smallest = [fitting_weights(z, below) for z, below in zip(hidden, net.activations, strict=True)]
    in_representations = penalty_of_representations(inputs, hidden, BIAS)
    assert in_representations < squared_norm(weights) * (1 - 1e-3)
    assert squared_norm(smallest) == pytest.approx(in_representations, rel=1e-9)
    for mine, theirs in zip(trained(smallest, inputs, targets).representations, hidden, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_proposition_5_3_1_at_stationary_points(seed: int) -> None:
    """The loss in the weights is the loss in the representations; the weights can be read off the latter."""
    net = minimised(*smooth_network(seed))
    assert max(np.abs(part).max() for part in net.loss_gradients(PENALTY)) < 1e-6
    hidden = net.representations
    assert penalty_of_representations(net.inputs, hidden, BIAS) == pytest.approx(
        squared_norm(list(net.weights)), rel=1e-6
    )
    for layer, z, below in zip(net.weights, hidden, net.activations, strict=True):
        np.testing.assert_allclose(fitting_weights(z, below), layer, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_minimum_in_the_weights_is_one_in_the_representations(seed: int) -> None:
    """Nearby representations that a network can have do not cost less."""
    net = minimised(*smooth_network(seed))
    targets = net.representations[-1] - net.cost_gradient * EXAMPLES / 2
    generator = np.random.default_rng(seed)

    def loss(hidden: list[Array]) -> float:
        return cost(hidden[-1], targets) + PENALTY * penalty_of_representations(net.inputs, hidden, BIAS)

    least = loss(net.representations)
    for _ in range(20):
        moved = [layer + 1e-3 * generator.normal(size=layer.shape) for layer in net.weights]
        assert loss(trained(moved, net.inputs, targets).representations) >= least - 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_covariances_say_all_that_the_penalty_needs(seed: int) -> None:
    """Proposition 5.3.3: Tr[K_l (K_(l-1)^s)^+] adds up to the same, with K_0^s = X^T X + beta^2."""
    weights, inputs, targets = network(seed)
    hidden = trained(weights, inputs, targets).representations
    pairs = [(covariance(z), covariance(activated(z, BIAS))) for z in hidden[:-1]]
    k_0 = covariance(inputs[:-1]) + BIAS**2
    in_covariances = penalty_of_covariances(k_0, pairs, hidden[-1])
    assert in_covariances == pytest.approx(penalty_of_representations(inputs, hidden, BIAS), rel=1e-9)


def test_aligned_neurons_can_be_merged() -> None:
    """Neurons on one ray and the single neuron of their joint length have the same pair (K, K^s): the cone's sum."""
    generator = np.random.default_rng(0)
    ray, other = generator.normal(size=(2, EXAMPLES))
    many = np.vstack([0.6 * ray, 0.8 * ray, other])
    few = np.vstack([ray, other])
    np.testing.assert_allclose(covariance(many), covariance(few))
    np.testing.assert_allclose(covariance(activated(many, BIAS)), covariance(activated(few, BIAS)))
    against = np.vstack([0.6 * ray, -0.8 * ray, other])
    assert np.abs(covariance(activated(against, BIAS)) - covariance(activated(few, BIAS))).max() > 0.1


@pytest.mark.parametrize("tikhonov", [0.0, 1e-2])
def test_forces_are_the_derivatives_of_the_two_terms(tikhonov: float) -> None:
    """Here every representation has full row space, so that the exact terms can be differentiated in all directions."""
    generator = np.random.default_rng(3)
    below, z, above = (generator.normal(size=(rows, 3)) for rows in (5, 6, 4))
    below[-1] = BIAS
    pulled = numerical(lambda at: multiplicative_distance(at, below, tikhonov), z)
    pushed = numerical(lambda at: multiplicative_distance(above, activated(at, BIAS), tikhonov), z)
    np.testing.assert_allclose(attraction(z, below, tikhonov), pulled, atol=1e-5)
    np.testing.assert_allclose(repulsion(z, above, BIAS, tikhonov), pushed, atol=1e-5)


def test_forces_of_aligned_neurons_are_proportional() -> None:
    """Section 5.3.1: Z_k = alpha Z_k' gives forces with the same ratio, for alpha > 0."""
    generator = np.random.default_rng(4)
    below, z, above = (generator.normal(size=(rows, EXAMPLES)) for rows in (8, 5, 3))
    z[1] = 2.5 * z[0]
    for force in (attraction(z, below, 1e-3), repulsion(z, above, BIAS, 1e-3)):
        np.testing.assert_allclose(force[1], 2.5 * force[0], rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_forces_cancel_at_a_stationary_point_once_the_constraint_reacts(seed: int) -> None:
    net = minimised(*smooth_network(seed))
    for layer in (1, 2):
        z = net.representations[layer - 1]
        pulled, pushed = net.forces(layer)
        size = np.abs(pulled).max()
        np.testing.assert_allclose(pulled + pushed + net.reaction(layer, PENALTY), 0, atol=2e-3 * size)
        # along a neuron's own ray nothing but the two forces acts
        along = np.sum((pulled + pushed) * z, axis=1)
        np.testing.assert_allclose(along, 0, atol=2e-3 * np.abs(np.sum(pulled * z, axis=1)).max())


def test_the_reaction_is_needed_where_rows_do_not_span_all_examples() -> None:
    """More examples than neurons: the forces alone leave a rest of their own size."""
    net = minimised(*smooth_network(0))
    pulled, pushed = net.forces(1)
    assert np.linalg.norm(pulled + pushed) > 0.1 * np.linalg.norm(pulled)


@pytest.mark.parametrize(("error", "expected"), [("sum", 1.0), ("mean", 2.0)])
def test_local_minimum_of_proposition_c_3_3(error: str, expected: float) -> None:
    """X = (1, -1), Y = (1, 1), beta = 0: a_1^2 + a_2^2 = 1 - c lambda is stationary, with c = 1 for the sum of squares.

    The thesis prints the mean of the squares, for which it would be 1 - 2 lambda.
    """
    penalty = 0.1
    share = {"sum": 1.0, "mean": 0.5}[error]
    radius = np.sqrt(1 - expected * penalty)
    first = radius * np.array([[0.6, 0.0], [0.8, 0.0]])
    second = radius * np.array([[0.6, 0.8, 0.0]])
    inputs = np.array([[1.0, -1.0], [0.0, 0.0]])
    output = TrainedWeights([first, second], inputs, 0.0, np.zeros((1, 2))).representations[-1]
    gradient = 2 * share * (output - 1.0)
    for part in TrainedWeights([first, second], inputs, 0.0, gradient).loss_gradients(penalty):
        np.testing.assert_allclose(part, 0, atol=1e-12)
