"""The transforms as mathematics."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tangentbench.datasets import Dataset
from tangentbench.datasets.prepare import TRANSFORMS
from tangentbench.datasets.prepare.transforms import apply
from tangentbench.datasets.resampling import (
    LUMA,
    averaging_matrix,
    downsample,
    flatten,
    grey,
    interpolation_matrix,
    upsample,
)
from tangentbench.datasets.scaling import centre, standardise, unit_norm, whiten
from tangentbench.datasets.selection import binary, classes, subset
from tangentbench.paths import Paths

Make = Callable[..., Dataset]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_schema_knows_exactly_the_transforms_there_are(checkout: Paths) -> None:
    schema = json.loads((checkout.schemas / "datasets.schema.json").read_text())
    assert set(schema["$defs"]["transform"]["properties"]) == set(TRANSFORMS)


# Selection


def test_subset_takes_so_many_of_each_class_in_their_old_order(make_images: Make) -> None:
    whole = make_images((48, 2, 2, 1))
    part = subset(whole, rng(), train=5, test=2)
    assert np.bincount(part.y_train).tolist() == [5] * 4
    assert np.bincount(part.y_test).tolist() == [2] * 4
    places = [int(np.flatnonzero((whole.x_train == x).all(axis=(1, 2, 3)))[0]) for x in part.x_train]
    assert places == sorted(set(places))
    assert np.array_equal(whole.y_train[places], part.y_train)


def test_subset_is_seeded_and_nested(make_images: Make) -> None:
    whole = make_images((48, 2, 2, 1))
    rows = {count: {x.tobytes() for x in subset(whole, rng(), train=count).x_train} for count in (3, 6, 12)}
    assert rows[3] < rows[6] < rows[12]
    assert rows[3] == {x.tobytes() for x in subset(whole, rng(), train=3, test=1).x_train}
    assert rows[3] != {x.tobytes() for x in subset(whole, rng(1), train=3).x_train}


def test_subset_none_keeps_all_and_too_many_is_refused(make_images: Make) -> None:
    whole = make_images((48, 2, 2, 1))
    assert len(subset(whole, rng(), test=0).x_train) == 48
    assert len(subset(whole, rng(), test=0).x_test) == 0
    with pytest.raises(ValueError, match="13 training examples per class asked for, class 0 has 12"):
        subset(whole, rng(), train=13)
    with pytest.raises(ValueError, match="needs classes"):
        subset(
            replace(
                whole,
                y_train=np.zeros((48, 1), np.float32),
                classes=(),
                y_test=whole.y_test[:0],
                x_test=whole.x_test[:0],
            ),
            rng(),
            train=1,
        )


def test_classes_are_relabelled_in_the_order_given(make_images: Make) -> None:
    whole = make_images((48, 2, 2, 1))
    part = classes(whole, keep=["class3", "class1"])
    assert part.classes == ("class3", "class1")
    assert np.array_equal(part.x_train[part.y_train == 0], whole.x_train[whole.y_train == 3])
    assert np.array_equal(part.x_train[part.y_train == 1], whole.x_train[whole.y_train == 1])
    assert len(part.x_train) == 24


def test_binary_groups_and_drops(make_images: Make) -> None:
    whole = make_images((48, 2, 2, 1))
    part = binary(whole, zero=["class0", "class2"], one=["class3"])
    assert part.classes == ("class0+class2", "class3")
    assert np.bincount(part.y_train).tolist() == [24, 12]
    kept = whole.y_train != 1
    assert np.array_equal(part.y_train, (whole.y_train[kept] == 3).astype(np.int64))
    assert binary(whole, ["class0"], ["class1"], names=["a", "b"]).classes == ("a", "b")


def test_classes_that_are_not_there_or_twice_are_refused(make_images: Make) -> None:
    whole = make_images((48, 2, 2, 1))
    with pytest.raises(ValueError, match=r"no class 'class9' \(there are: class0"):
        classes(whole, keep=["class9"])
    with pytest.raises(ValueError, match="'class1' is named twice"):
        binary(whole, zero=["class1"], one=["class1"])


# Resampling


def test_downsampling_by_a_whole_factor_is_the_mean_of_blocks(make_images: Make) -> None:
    whole = make_images((5, 12, 12, 3))
    small = downsample(whole, side=4)
    blocks = whole.x_train.reshape(5, 4, 3, 4, 3, 3).mean(axis=(2, 4))
    np.testing.assert_allclose(small.x_train, blocks, rtol=1e-6)
    assert small.x_test.shape == (1, 4, 4, 3)


@settings(deadline=None, max_examples=60)
@given(old=st.integers(1, 40), data=st.data())
def test_averaging_keeps_constants_and_the_total(old: int, data: st.DataObject) -> None:
    new = data.draw(st.integers(1, old))
    matrix = averaging_matrix(old, new)
    assert (matrix >= 0).all()
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(matrix.sum(axis=0), new / old, rtol=1e-12)


def test_downsampling_twice_is_downsampling_once(make_images: Make) -> None:
    whole = make_images((3, 28, 28, 1))
    np.testing.assert_allclose(
        downsample(downsample(whole, side=14), side=7).x_train, downsample(whole, side=7).x_train, rtol=1e-5
    )


@settings(deadline=None, max_examples=60)
@given(old=st.integers(1, 20), data=st.data())
def test_interpolation_weights(old: int, data: st.DataObject) -> None:
    new = data.draw(st.integers(old, 60))
    matrix = interpolation_matrix(old, new)
    assert (matrix >= 0).all()
    assert (np.count_nonzero(matrix, axis=1) <= 2).all()
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(matrix, matrix[::-1, ::-1], atol=1e-12)


def test_upsampling_a_ramp_gives_a_ramp_between_the_outer_centres(make_images: Make) -> None:
    ramp = np.broadcast_to(np.arange(8, dtype=np.float32)[None, :, None, None], (3, 8, 8, 1))
    whole = make_images((3, 8, 8, 1)).with_inputs(ramp, ramp[:1])
    large = upsample(whole, side=24).x_train
    assert large.shape == (3, 24, 24, 1)
    inside = slice(1, 23)
    expected = (np.arange(24)[inside] + 0.5) / 3 - 0.5
    np.testing.assert_allclose(large[0, inside, 5, 0], expected, atol=1e-5)


def test_same_side_changes_nothing(make_images: Make) -> None:
    whole = make_images((3, 8, 8, 3))
    for resample in (downsample, upsample):
        assert np.array_equal(resample(whole, side=8).x_train, whole.x_train)


def test_wrong_sides_and_flat_inputs_are_refused(make_images: Make) -> None:
    whole = make_images((3, 8, 8, 3))
    with pytest.raises(ValueError, match="8x8: side 9 would not make them smaller"):
        downsample(whole, side=9)
    with pytest.raises(ValueError, match="side 7 would not make them larger"):
        upsample(whole, side=7)
    with pytest.raises(ValueError, match="put this transform before flatten"):
        downsample(flatten(whole), side=4)


def test_grey_weighs_the_channels_and_keeps_greys(make_images: Make) -> None:
    whole = make_images((3, 4, 4, 3))
    np.testing.assert_allclose(grey(whole).x_train[..., 0], np.einsum("nhwc,c->nhw", whole.x_train, LUMA), rtol=1e-6)
    assert LUMA.sum() == pytest.approx(1)
    assert grey(grey(whole)).x_train.shape == (3, 4, 4, 1)
    with pytest.raises(ValueError, match="2 channels"):
        grey(make_images((3, 4, 4, 2)))


def test_flatten_is_row_by_row(make_images: Make) -> None:
    whole = make_images((3, 4, 5, 3))
    flat = flatten(whole)
    assert flat.x_train.shape == (3, 60)
    assert flat.x_train[2, (3 * 5 + 4) * 3 + 1] == whole.x_train[2, 3, 4, 1]
    assert np.array_equal(flatten(flat).x_train, flat.x_train)


# Scaling


def covariance(x: np.ndarray) -> np.ndarray:
    flat = x.reshape(len(x), -1).astype(np.float64)
    return (flat - flat.mean(axis=0)).T @ (flat - flat.mean(axis=0)) / len(flat)  # type: ignore[no-any-return]


def second_moment(x: np.ndarray) -> np.ndarray:
    flat = x.reshape(len(x), -1).astype(np.float64)
    return flat.T @ flat / len(flat)


@pytest.mark.parametrize("basis", ["pixels", "components"])
def test_whitened_covariance_is_the_identity(make_images: Make, basis: str) -> None:
    white = whiten(make_images((5000, 3, 3, 2)), centre=True, basis=basis)
    np.testing.assert_allclose(covariance(white.x_train), np.eye(18), atol=1e-5)
    np.testing.assert_allclose(white.x_train.mean(axis=0), 0, atol=1e-5)
    assert white.provenance["whitening"]["rank"] == 18


def test_whitening_without_centring_makes_the_second_moment_the_identity(make_images: Make) -> None:
    whole = make_images((5000, 4, 4, 1))
    white = whiten(whole, centre=False)
    np.testing.assert_allclose(second_moment(white.x_train), np.eye(16), atol=1e-5)
    assert np.abs(white.x_train.mean(axis=0)).max() > 0.1
    assert white.x_train.shape == whole.x_train.shape


def test_whitening_is_fitted_on_train_and_applied_to_test(make_images: Make) -> None:
    whole = make_images((300, 3, 3, 1))
    white = whiten(whole, centre=True)
    flat = whole.x_train.reshape(300, -1).astype(np.float64)
    values, vectors = np.linalg.eigh(covariance(whole.x_train))
    root = vectors / np.sqrt(values) @ vectors.T
    expected = (whole.x_test.reshape(-1, 9) - flat.mean(axis=0)) @ root
    np.testing.assert_allclose(white.x_test.reshape(-1, 9), expected, atol=1e-4)
    again = whiten(replace(whole, x_test=whole.x_test * 7), centre=True)
    assert np.array_equal(again.x_train, white.x_train)


def test_rank_deficient_inputs_are_whitened_on_their_span(make_images: Make) -> None:
    """Two dead pixels and one copied: the second moment becomes the projector on the span, of rank d - 3."""
    whole = make_images((2000, 3, 3, 1))
    x = whole.x_train.copy()
    x[:, 0, :2] = 0
    x[:, 2, 2] = x[:, 1, 1]
    white = whiten(whole.with_inputs(x, whole.x_test), centre=False)
    moment = second_moment(white.x_train)
    assert white.provenance["whitening"]["rank"] == 6
    np.testing.assert_allclose(moment @ moment, moment, atol=1e-4)
    assert np.trace(moment) == pytest.approx(6, abs=1e-4)
    assert np.isfinite(white.x_test).all()
    few = whiten(whole.with_inputs(x, whole.x_test), centre=False, basis="components")
    assert few.x_train.shape == (2000, 6)
    np.testing.assert_allclose(second_moment(few.x_train), np.eye(6), atol=1e-5)


def test_eps_decides_which_directions_count(make_images: Make) -> None:
    whole = make_images((2000, 2, 2, 1))
    x = (whole.x_train - 0.5) * np.array([1, 1, 1, 1e-3], np.float32).reshape(1, 2, 2, 1)
    faint = (
        whole.with_inputs(x, x[:1])
        if len(whole.x_test) == 1
        else replace(whole, x_train=x, x_test=x[: len(whole.x_test)])
    )
    assert whiten(faint, eps=1e-9).provenance["whitening"]["rank"] == 4
    assert whiten(faint, eps=1e-4).provenance["whitening"]["rank"] == 3


def test_fewer_examples_than_coordinates(make_images: Make) -> None:
    white = whiten(make_images((10, 4, 4, 1)), centre=True, basis="components")
    assert white.x_train.shape == (10, 9)
    np.testing.assert_allclose(covariance(white.x_train), np.eye(9), atol=1e-4)


def test_nothing_to_whiten(make_images: Make) -> None:
    whole = make_images((10, 4, 4, 1))
    with pytest.raises(ValueError, match="nothing to whiten"):
        whiten(whole.with_inputs(np.zeros_like(whole.x_train), whole.x_test))


def test_standardised_channels(make_images: Make) -> None:
    whole = make_images((200, 4, 4, 3))
    x = whole.x_train * np.array([1, 5, 0], np.float32) + np.array([0, 3, 0.25], np.float32)
    flat = standardise(whole.with_inputs(x, x[: len(whole.x_test)]))
    np.testing.assert_allclose(flat.x_train.mean(axis=(0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(flat.x_train.std(axis=(0, 1, 2)), [1, 1, 0], atol=1e-5)
    np.testing.assert_allclose(flat.x_test, flat.x_train[: len(flat.x_test)])


def test_standardised_vectors_per_coordinate(make_images: Make) -> None:
    x = standardise(flatten(make_images((200, 2, 2, 3)))).x_train
    np.testing.assert_allclose(x.std(axis=0), 1, atol=1e-5)


def test_unit_norm(make_images: Make) -> None:
    whole = make_images((20, 3, 3, 3))
    unit = unit_norm(whole)
    for before, after in ((whole.x_train, unit.x_train), (whole.x_test, unit.x_test)):
        norms = np.linalg.norm(after.reshape(len(after), -1), axis=1)
        np.testing.assert_allclose(norms, 1, rtol=1e-6)
        ratio = after / before
        np.testing.assert_allclose(ratio, np.broadcast_to(ratio[:, :1, :1, :1], ratio.shape), rtol=1e-5)
    whole.x_train[7] = 0
    with pytest.raises(ValueError, match="input 7 is zero"):
        unit_norm(whole)


def test_centre_subtracts_the_training_mean_from_both(make_images: Make) -> None:
    whole = make_images((50, 3, 3, 1))
    moved = centre(whole)
    np.testing.assert_allclose(moved.x_train.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(
        whole.x_test - moved.x_test, np.broadcast_to(whole.x_train.mean(0), whole.x_test.shape), atol=1e-6
    )


def test_every_transform_keeps_the_dtypes(make_images: Make) -> None:
    given_settings = {
        "subset": {"train": 2, "test": 1},
        "classes": {"keep": ["class0"]},
        "binary": {"zero": ["class0"], "one": ["class1"]},
        "downsample": {"side": 2},
        "upsample": {"side": 9},
    }
    for name in TRANSFORMS:
        done = apply(make_images((24, 4, 4, 3)), name, given_settings.get(name, {}), rng())  # type: ignore[arg-type]
        assert done.x_train.dtype == done.x_test.dtype == np.float32, name
        assert done.y_train.dtype == done.y_test.dtype == np.int64, name
        assert done.x_train.flags.c_contiguous, name
