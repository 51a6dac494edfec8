"""Paths by enumeration against the same quantities layer by layer."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tangentbench.theory.paths import (
    enumerate_paths,
    gated_output,
    path_activity,
    path_features,
    path_kernel,
    path_overlap,
    path_values,
    shared_paths,
)

EXAMPLES = 5
networks = st.tuples(st.integers(1, 3), st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 2**32 - 1))


def draw(inputs: int, widths: Sequence[int], seed: int) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    generator = np.random.default_rng(seed)
    signals = generator.standard_normal((EXAMPLES, inputs))
    gates = [generator.integers(0, 2, (EXAMPLES, width)) for width in widths]
    sizes = [inputs, *widths, 1]
    weights = [generator.standard_normal(pair) for pair in itertools.pairwise(sizes)]
    return signals, gates, weights


def test_toy_network_has_18_paths_in_the_order_of_the_figure() -> None:
    paths = enumerate_paths(2, [3, 3])
    assert len(paths) == 18
    assert (paths[:9, 0] == 0).all() and (paths[9:, 0] == 1).all()
    # p3 and p12 pass through the same hidden units
    assert paths[2, 1:].tolist() == paths[11, 1:].tolist() == [0, 2]


def test_a_path_is_active_only_if_all_its_gates_are_on() -> None:
    gates = [np.array([[1, 0]]), np.array([[0, 1]])]
    activity = path_activity(gates, enumerate_paths(1, [2, 2]))
    assert activity.tolist() == [[0, 1, 0, 0]]


@settings(max_examples=40, deadline=None)
@given(networks)
def test_features_times_values_are_the_output(network: tuple[int, list[int], int]) -> None:
    """Proposition 2.1."""
    inputs, widths, _ = network
    signals, gates, weights = draw(*network)
    paths = enumerate_paths(inputs, widths)
    features = path_features(signals, path_activity(gates, paths), paths)
    np.testing.assert_allclose(
        features @ path_values(weights, paths), gated_output(signals, weights, gates), rtol=1e-10, atol=1e-10
    )


@settings(max_examples=40, deadline=None)
@given(networks)
def test_counted_paths_are_the_product_of_overlaps(network: tuple[int, list[int], int]) -> None:
    inputs, widths, _ = network
    _, gates, _ = draw(*network)
    activity = path_activity(gates, enumerate_paths(inputs, widths))
    np.testing.assert_array_equal(shared_paths(activity, inputs), path_overlap(gates))


@settings(max_examples=40, deadline=None)
@given(networks)
def test_gram_of_features_is_gram_of_inputs_times_overlap(network: tuple[int, list[int], int]) -> None:
    """Lemma 2.1."""
    inputs, widths, _ = network
    signals, gates, _ = draw(*network)
    paths = enumerate_paths(inputs, widths)
    features = path_features(signals, path_activity(gates, paths), paths)
    np.testing.assert_allclose(features @ features.T, path_kernel(signals, gates), rtol=1e-12, atol=1e-12)


def test_relu_gates_give_the_relu_network() -> None:
    """With the gates a ReLU network sets itself, the gated output is that network's."""
    signals, _, weights = draw(3, [4, 4], 7)
    first = signals @ weights[0]
    second = np.maximum(first, 0) @ weights[1]
    expected = (np.maximum(second, 0) @ weights[2])[:, 0]
    assert gated_output(signals, weights, [first > 0, second > 0]) == pytest.approx(expected)
