"""Silhouettes, rays and the start of a plateau."""

from __future__ import annotations

import numpy as np
import pytest

from tangentbench.theory.clusters import fit_rays, plateau_start, rays_needed, silhouettes


def test_silhouettes_are_scikit_learns() -> None:
    from sklearn.metrics import silhouette_samples

    generator = np.random.default_rng(0)
    points, labels = generator.normal(size=(30, 4)), np.repeat([0, 1, 2], [5, 10, 15])
    np.testing.assert_allclose(silhouettes(points, labels), silhouette_samples(points, labels), atol=1e-12)


def test_rays_are_found_whatever_the_lengths_along_them() -> None:
    generator = np.random.default_rng(1)
    rays = np.linalg.qr(generator.normal(size=(8, 3)))[0].T
    vectors = generator.uniform(0.1, 5.0, size=(40, 1)) * rays[generator.integers(0, 3, 40)]
    found = fit_rays(vectors, 3)
    assert found.share_within(1e-3) == pytest.approx(1.0)
    np.testing.assert_allclose(np.abs(found.directions @ rays.T).max(axis=1), 1.0, atol=1e-9)
    assert rays_needed(vectors, 10.0, 0.999) == 3
    assert fit_rays(vectors, 2).share_within(10.0) < 0.9


def test_a_vector_and_its_opposite_lie_on_two_rays() -> None:
    vectors = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert rays_needed(vectors, 10.0, 0.9) == 2


def test_squared_norm_is_what_counts_and_dead_neurons_do_not() -> None:
    vectors = np.array([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    found = fit_rays(vectors, 1)
    assert found.nearest.tolist() == [0, 0, -1] and np.isnan(found.degrees[2])
    assert found.share_within(30.0) == pytest.approx(0.9)


def test_random_directions_have_no_rays() -> None:
    vectors = np.random.default_rng(2).normal(size=(50, 40))
    assert fit_rays(vectors, 3).share_within(10.0) < 0.1
    assert rays_needed(vectors, 10.0, 0.9, most=4) == 5


def test_plateau_starts_at_the_first_width_near_the_smallest_loss() -> None:
    widths, losses = [2, 5, 10, 20, 50], [1.0, 0.5, 0.104, 0.3, 0.1]
    assert plateau_start(widths, losses, 0.05) == 10
    assert plateau_start(widths, losses, 0.03) == 50
    assert plateau_start(widths, losses, 5.0) == 5
    assert plateau_start(widths, losses, 0.01, of_the_drop=True) == 10
    assert plateau_start(widths, losses, 0.45, of_the_drop=True) == 5
