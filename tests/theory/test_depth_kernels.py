"""Kernels of deep networks: compositions of the dual, the tangent kernel unrolled, and pairs of unequal norms."""

import itertools

import numpy as np
import pytest

from tangentbench.theory.activations import activation
from tangentbench.theory.depth_kernels import (
    kernel_at,
    square_matrix,
    tangent_diagonal,
    unit_correlations,
    upper_entries,
)
from tangentbench.theory.duals import normalised, scaled
from tangentbench.theory.kernel_descent import steps_from_condition_number, steps_to_ratio, theorem50_steps
from tangentbench.theory.layer_map import layer_map
from tangentbench.theory.norm_pairs import norm_relu_pair, norm_relu_paths
from tangentbench.theory.norm_propagation import norm_relu_propagation
from tangentbench.theory.quadrature import conditional_rule, gaussian_rule

RHO = np.array([-0.95, -0.3, 0.0, 0.2, 0.8, 0.999])
C = -1.5975


def test_top_layer_kernel_is_the_iterated_dual() -> None:
    sigma = normalised(activation("relu"))
    expected = sigma.dual(sigma.dual(sigma.dual(RHO)))  # type: ignore[misc]
    np.testing.assert_allclose(kernel_at(layer_map(sigma), RHO, 3, tangent=False).top, expected, atol=1e-13)


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_tangent_kernel_is_the_sum_over_layers(depth: int) -> None:
    """Equation (7) with sigma_hat' one layer lower than it is printed."""
    layer = layer_map(normalised(activation("tanh")))
    tops = [RHO]
    for _ in range(depth):
        tops.append(layer.value(tops[-1]))
    total = sum(
        tops[h] * np.prod([layer.slope(tops[above]) for above in range(h, depth)], axis=0) for h in range(depth + 1)
    )
    found = kernel_at(layer, RHO, depth, tangent=True)
    diagonal = tangent_diagonal(layer.slope_at_one, depth)
    assert np.exp(found.log_diagonal) == pytest.approx(diagonal, rel=1e-12)
    np.testing.assert_allclose(found.tangent * diagonal, total, rtol=1e-11, atol=1e-14)  # type: ignore[operator]


def test_plain_relu_has_diagonal_depth_plus_one_and_tends_to_a_quarter_of_it() -> None:
    layer = layer_map(scaled(activation("relu")))
    found = kernel_at(layer, np.array([-0.5, 0.0, 0.5]), 3000, tangent=True)
    assert np.exp(found.log_diagonal) == pytest.approx(3001, rel=1e-9)
    np.testing.assert_allclose(found.tangent, 0.25, atol=2e-3)  # type: ignore[arg-type]
    assert np.all(found.top > 0.9999)


def test_nothing_overflows_where_the_diagonal_does() -> None:
    found = kernel_at(layer_map(normalised(activation("hermite2"))), RHO, 1500, tangent=True)
    assert found.log_diagonal == pytest.approx(1501 * np.log(2), rel=1e-6)
    assert np.isfinite(found.tangent).all()  # type: ignore[arg-type]


def test_matrix_and_entries_are_inverse() -> None:
    gram = unit_correlations(np.random.default_rng(1).standard_normal((5, 2, 3)))
    np.testing.assert_allclose(square_matrix(upper_entries(gram), 5), gram, atol=1e-15)


@pytest.mark.parametrize("rho", [-0.9, 0.0, 0.4, 0.95])
@pytest.mark.parametrize(("first", "second"), [(0.5, 2.0), (1.0, 1.0), (0.7, 0.7)])
def test_pair_of_unequal_norms_is_its_integral(first: float, second: float, rho: float) -> None:
    """E[sigma(sqrt(first) X) E[sigma(sqrt(second) Y) | X]], split at the kinks of both."""
    sigma = activation("norm_relu", c=C)
    x, weights = gaussian_rule((C / np.sqrt(first),))
    spread = np.sqrt(1 - rho**2)
    z, inner = conditional_rule(x, rho, spread, (C / np.sqrt(second),))
    values = sigma(np.sqrt(second) * (rho * x[:, None] + spread * z))
    expected = weights @ (sigma(np.sqrt(first) * x) * (values * inner).sum(axis=1))
    found = norm_relu_pair(C, np.array(first), np.array(second), np.array(rho))
    assert found == pytest.approx(expected, abs=1e-11)


def test_unit_norms_follow_the_dual_and_norms_their_own_path() -> None:
    rho = np.array([-0.9, 0.3, 0.9])
    layer = layer_map(activation("norm_relu", c=C))
    *_, (first, second, _) = itertools.islice(norm_relu_paths(C, np.ones(3), np.full(3, 0.5), rho), 6)
    np.testing.assert_allclose(first, 1.0, atol=1e-13)
    np.testing.assert_allclose(second, norm_relu_propagation(C).path(0.5, 5)[-1], atol=1e-13)
    *_, (_, _, equal) = itertools.islice(norm_relu_paths(C, np.ones(3), np.ones(3), rho), 6)
    np.testing.assert_allclose(equal, kernel_at(layer, rho, 5, tangent=False).top, atol=1e-12)


def test_steps_are_those_that_descent_takes() -> None:
    rng = np.random.default_rng(2)
    root = rng.standard_normal((6, 9))
    kernel, errors = root @ root.T, rng.standard_normal(6)
    found = steps_to_ratio(kernel, errors, 0.01)
    current, taken = errors.copy(), 0
    while current @ current > 0.01 * errors @ errors:
        current = current - kernel @ current / np.linalg.eigvalsh(kernel)[-1]
        taken += 1
    assert found == taken
    excess = np.linalg.cond(kernel) - 1
    assert found <= np.ceil(steps_from_condition_number(excess, 0.01)) <= theorem50_steps(excess, 0.01)


def test_steps_along_the_slowest_direction_are_what_the_condition_number_says() -> None:
    kernel = np.diag([1.0, 50.0])
    assert steps_to_ratio(kernel, np.array([1.0, 0.0]), 1e-3) == np.ceil(steps_from_condition_number(49.0, 1e-3))
    assert steps_to_ratio(np.diag([0.0, 1.0]), np.array([1.0, 1.0]), 1e-3) is None
    assert steps_to_ratio(np.eye(3), np.ones(3), 1e-3) == 1
