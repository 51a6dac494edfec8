"""The bounds: their values where they can be done by hand, and that the kernels they bound stay below them."""

from typing import Any

import numpy as np
import pytest

from tangentbench.theory import conditioning as bounds
from tangentbench.theory.activations import activation
from tangentbench.theory.depth_kernels import kernel_at, kernels_by_depth, square_matrix, upper_entries
from tangentbench.theory.duals import normalised, scaled
from tangentbench.theory.layer_map import layer_map

NAMES = {"norm_relu": {"c": -1.5975}, "selu": {}, "tanh": {}, "relu": {}, "step": {}, "hermite2": {}}
LAYERS = {name: layer_map(normalised(activation(name, **given))) for name, given in NAMES.items()}
every = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)


def worst_case(rho: Any, mu: Any) -> Any:
    """The dual that Lemma 21 is about: all non-linearity in the second coefficient."""
    return (1 - mu) * rho + mu * rho**2


@pytest.mark.parametrize("mu", [0.0156, 0.27, 1.0])
@pytest.mark.parametrize("delta", [0.9, 0.5, 0.3, 0.1, 1e-3])
def test_bound_holds_for_the_worst_dual(mu: float, delta: float) -> None:
    rho = 1 - delta
    for depth in range(1, 400):
        rho = worst_case(rho, mu)
        assert rho <= bounds.correlation_bound(depth, delta, mu) * (1 + 1e-12)


def test_bound_needs_its_wait_rounded_up() -> None:
    """With L_0 rounded down the bound would fall below the worst dual's correlation."""
    mu, broken = 0.27, 0
    for delta in np.geomspace(0.01, 0.45, 40):
        wait = int(np.log(0.5 / delta) / np.log1p(mu / 2))
        rho = 1 - delta
        for _ in range(wait + 1):
            rho = worst_case(rho, mu)
        broken += rho > 0.5 * (1 - mu / 2)
    assert broken > 0


def test_bound_by_hand() -> None:
    assert bounds.separation_layers(0.5, 0.3) == 0 and bounds.separation_layers(0.9, 0.3) == 0
    assert bounds.separation_layers(0.1, 1.0) == 4  # 1.5^4 is the first power over 5
    np.testing.assert_allclose(
        bounds.correlation_bound([0, 1, 4, 5, 6], 0.1, 1.0), [0.9, 0.85, 1 - 0.1 * 1.5**4, 0.25, 0.125]
    )
    np.testing.assert_allclose(bounds.tangent_correlation_bound([7, 10, 12], 0.1, 1.0), [np.inf, 0.5, 0.25])
    assert bounds.corollary4_layers(0.1, 1.0, 8) == 3 + 4
    assert bounds.corollary6_layers(0.1, 1.0, 8) == 8 + 8
    np.testing.assert_allclose(bounds.corollary4([6, 7, 8], 0.1, 1.0, 8), [np.inf, 16.0, 8.0])


@every
def test_printed_corollaries_are_weaker_than_their_theorems(layer: Any) -> None:
    mu, n, delta = layer.nonaffinity, 30, 0.05
    depths = np.arange(1, 6000, 7)
    for printed, correlation in (
        (bounds.corollary4, bounds.correlation_bound),
        (bounds.corollary6, bounds.tangent_correlation_bound),
    ):
        direct, bound = bounds.gershgorin(correlation(depths, delta, mu), n), printed(depths, delta, mu, n)
        assert np.all(direct <= bound * (1 + 1e-12))


@every
def test_corollary_8_follows_from_theorem_7(layer: Any) -> None:
    mu, n, delta = layer.nonaffinity, 30, 0.05
    depths = np.arange(1, 3000, 3)
    correlation = bounds.correlation_bound(depths, delta, mu)
    assert np.all(n * correlation / (1 - correlation) <= bounds.corollary8(depths, delta, mu, n) * (1 + 1e-9))


@every
def test_theorems_7_and_3_bound_a_gram_matrix(layer: Any) -> None:
    vectors = np.random.default_rng(0).standard_normal((12, 15))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    gram = vectors @ vectors.T
    rho, smallest = upper_entries(gram), np.linalg.eigvalsh(gram)[0]
    for depth in (1, 3, 10, 40):
        top = kernel_at(layer, rho, depth, tangent=False).top
        eigenvalues = np.linalg.eigvalsh(square_matrix(top, 12))
        assert eigenvalues[0] >= 1 - bounds.correlation_bound(depth, smallest, layer.nonaffinity)
        excess = bounds.condition_excess(square_matrix(top, 12) - np.eye(12))
        assert excess == pytest.approx(eigenvalues[-1] / eigenvalues[0] - 1, abs=1e-10)
        assert excess <= bounds.corollary8(depth, smallest, layer.nonaffinity, 12)


def test_condition_excess_keeps_digits_that_the_condition_number_loses() -> None:
    off = np.array([[0.0, 1e-30], [1e-30, 0.0]])
    assert bounds.condition_excess(off) == pytest.approx(2e-30, rel=1e-12)
    assert bounds.condition_excess(np.array([[0.0, 1.0], [1.0, 0.0]])) == np.inf


def test_fixed_points() -> None:
    assert bounds.fixed_point(layer_map(scaled(activation("relu")))) == 1.0
    assert bounds.fixed_point(LAYERS["relu"]) == 0.0
    step = layer_map(scaled(activation("step")))
    rest = bounds.fixed_point(step)
    assert rest < 1 and step.value(np.array([rest]))[0] == pytest.approx(rest, abs=1e-14)


@pytest.mark.parametrize("delta", [0.5, 0.05])
def test_uncentred_correlations_converge_as_lemma_35_says(delta: float) -> None:
    layer = layer_map(scaled(activation("step")))
    rest, rho = bounds.fixed_point(layer), np.linspace(-1 + delta, 1 - delta, 41)
    for kernels, _ in zip(kernels_by_depth(layer, rho, tangent=False), range(120), strict=False):
        bound = bounds.uncentred_bound(kernels.depth, delta, layer)
        assert np.all(np.abs(kernels.top - rest) <= bound + 1e-13)
    assert np.isinf(bounds.uncentred_bound(0, delta, layer)) and bound < 0.3


def test_plain_relu_collapses_as_lemma_36_says() -> None:
    layer = layer_map(scaled(activation("relu")))
    top = kernel_at(layer, np.linspace(-1, 1, 21), 400, tangent=False).top
    bound = bounds.collapse_bound(400, layer)
    assert np.all(1 - top <= bound) and bound < 0.2
    assert bounds.collapse_layers(float(bound), layer) <= 400


def test_theorem_59_begins_after_its_wait() -> None:
    theorem = bounds.UnequalNorms(alpha=0.0798, delta=0.0185)
    wait = theorem.layers(1e-3, 0.0156)
    assert wait == pytest.approx(2 / 0.0798 * np.log(3000))
    depths = np.array([wait - 1, wait, 1e6])
    expected = [np.inf, 1 - (0.1 - 0.0185) + 0.0185e-3, 0.0185e-3]
    np.testing.assert_allclose(theorem.bound(depths, 0.1, 0.0156, 1e-3), expected)
    assert np.isinf(theorem.bound(depths, 0.018, 0.0156, 1e-3)).all()
