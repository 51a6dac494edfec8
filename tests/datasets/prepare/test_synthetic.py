"""Synthetic data have the geometry they are named for."""

from __future__ import annotations

import numpy as np
import pytest

from tangentbench.datasets.prepare.pipeline import prepare
from tangentbench.datasets.prepare.synthetic import sphere_pairs, teacher, teacher_outputs, teacher_weights
from tangentbench.paths import Paths

SEPARATIONS = [0.0, 1e-6, 0.01, 0.5, 1.0, 1.7, 2.0]


def test_pairs_are_unit_vectors_at_their_separation() -> None:
    x, which = sphere_pairs(np.random.default_rng(0), 16, 30, SEPARATIONS)
    first, second = x[0::2], x[1::2]
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, rtol=1e-12)
    assert np.array_equal(which[0::2], which[1::2])
    # |x - y|^2 = 2 delta, which shows a small delta better than the inner product does
    np.testing.assert_allclose(np.sum((first - second) ** 2, axis=1) / 2, np.array(SEPARATIONS)[which[::2]], atol=1e-12)


def test_pairs_are_spread_over_the_sphere() -> None:
    x, _ = sphere_pairs(np.random.default_rng(0), 3, 20_000, [0.5])
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=0.02)
    np.testing.assert_allclose(x.T @ x / len(x), np.eye(3) / 3, atol=0.02)


def test_the_sphere_pairs_recipe(checkout: Paths) -> None:
    made = prepare("sphere_pairs", checkout, None, seed=3, progress=False)
    assert made.x_train.shape == (500, 64)
    assert len(made.x_test) == 0
    deltas = np.array([float(name.removeprefix("delta=")) for name in made.classes])
    cosine = np.sum(made.x_train[0::2].astype(float) * made.x_train[1::2], axis=1)
    np.testing.assert_allclose(cosine, 1 - deltas[made.y_train[0::2]], atol=1e-6)
    assert np.array_equal(made.x_train, prepare("sphere_pairs", checkout, None, 3, False).x_train)
    assert not np.array_equal(made.x_train, prepare("sphere_pairs", checkout, None, 4, False).x_train)


def test_the_teacher_by_hand() -> None:
    """Widths (2, 2, 1): f(x) = w2 . relu(W1 x + beta b1) + beta b2."""
    first = np.array([[1.0, -1.0, 3.0], [2.0, 0.5, -1.0]])
    second = np.array([[10.0, 100.0, 7.0]])
    x = np.array([[1.0, 2.0], [-1.0, 0.0]])
    without = teacher_outputs(x, [first, second], bias=0.0)
    np.testing.assert_allclose(without, [[10 * 0 + 100 * 3], [10 * 0 + 100 * 0]])
    with_bias = teacher_outputs(x, [first, second], bias=1.0)
    np.testing.assert_allclose(with_bias, [[10 * 2 + 100 * 2 + 7], [10 * 2 + 100 * 0 + 7]])


@pytest.mark.parametrize(("weights", "spread"), [("fan_in", 0.05), ("unit", 1.0)])
def test_teacher_weights(weights: str, spread: float) -> None:
    matrices = teacher_weights(np.random.default_rng(0), (400, 300, 2), weights)
    assert [matrix.shape for matrix in matrices] == [(300, 401), (2, 301)]
    assert matrices[0].std() == pytest.approx(spread, rel=0.02)


def test_the_teacher_without_bias_is_positively_homogeneous() -> None:
    matrices = teacher_weights(np.random.default_rng(0), (5, 7, 7, 3), "fan_in")
    x = np.random.default_rng(1).standard_normal((4, 5))
    np.testing.assert_allclose(teacher_outputs(2.5 * x, matrices, 0.0), 2.5 * teacher_outputs(x, matrices, 0.0))


def test_train_and_test_share_the_teacher() -> None:
    x_train, y_train, x_test, y_test = teacher(np.random.default_rng(0), (5, 3, 2), 20, 10, 0.0, "unit")
    matrices = teacher_weights(np.random.default_rng(0), (5, 3, 2), "unit")
    np.testing.assert_allclose(y_train, teacher_outputs(x_train, matrices, 0.0))
    np.testing.assert_allclose(y_test, teacher_outputs(x_test, matrices, 0.0))
    assert not np.isin(x_test, x_train).any()


def test_the_teacher_recipe(checkout: Paths) -> None:
    made = prepare("teacher_50_10", checkout, None, seed=0, progress=False)
    assert made.x_train.shape == (1000, 50)
    assert made.y_test.shape == (1000, 10)
    assert made.y_train.dtype == np.float32
    assert made.classes == ()
