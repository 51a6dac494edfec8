"""What holds for every CNTK, whatever the images."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from images import images, relative_error

from tangentbench.kernels import cntk

batches = st.builds(
    images,
    count=st.integers(1, 11),
    height=st.integers(1, 7),
    width=st.integers(1, 7),
    channels=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
kernels = st.fixed_dictionaries(
    {
        "depth": st.integers(2, 8),
        "pooling": st.sampled_from(["gap", "flatten"]),
        "kind": st.sampled_from(["ntk", "nngp"]),
        "train_first_last": st.booleans(),
        "filter": st.sampled_from([1, 3, 3, 5]),
    }
)
few = settings(max_examples=40, deadline=None)


@few
@given(batches, kernels)
def test_symmetric_half_equals_the_whole(batch: Any, kernel: Any) -> None:
    gram = cntk(batch, **kernel)
    assert np.array_equal(gram, gram.T)
    assert relative_error(cntk(batch, batch.copy(), **kernel), gram) < 1e-12


@few
@given(batches, kernels, st.floats(0.01, 100), st.floats(0.01, 100))
def test_homogeneous_in_the_scale_of_both_images(batch: Any, kernel: Any, a: Any, b: Any) -> None:
    assert relative_error(cntk(a * batch, b * batch, **kernel), a * b * cntk(batch, batch.copy(), **kernel)) < 1e-9


@few
@given(batches, kernels, st.randoms(use_true_random=False))
def test_permuting_the_batch_permutes_the_kernel(batch: Any, kernel: Any, random: Any) -> None:
    order = list(range(len(batch)))
    random.shuffle(order)
    gram = cntk(batch, batch.copy(), **kernel)
    assert np.array_equal(cntk(batch[order], batch[order].copy(), **kernel), gram[np.ix_(order, order)])


@few
@given(batches, kernels)
def test_flipping_both_images_changes_nothing(batch: Any, kernel: Any) -> None:
    gram = cntk(batch, **kernel)
    assert relative_error(cntk(batch[:, ::-1], **kernel), gram) < 1e-9
    assert relative_error(cntk(batch.transpose(0, 2, 1, 3), **kernel), gram) < 1e-9


@few
@given(batches, st.integers(2, 6), st.integers(-7, 7), st.integers(-7, 7))
def test_gap_without_padding_is_invariant_under_circular_shift(batch: Any, depth: Any, down: Any, along: Any) -> None:
    """A 1 x 1 filter never reads the padding, so pooling over all pairs of positions forgets where they were."""
    moved = np.roll(batch, (down, along), axis=(1, 2))
    kernel = {"depth": depth, "filter": 1, "train_first_last": True}
    assert relative_error(cntk(moved, batch, **kernel), cntk(batch, batch.copy(), **kernel)) < 1e-9


def test_gap_is_invariant_under_shift_inside_a_wide_margin() -> None:
    """Zeros around the object, wider than the receptive field: the border never sees where it lies."""
    canvas = np.zeros((2, 15, 15, 2))
    canvas[:, 6:9, 6:9] = images(2, 3, 3, 2)
    moved = np.roll(canvas, (1, -1), axis=(1, 2))
    assert relative_error(cntk(moved, canvas, depth=4), cntk(canvas, canvas.copy(), depth=4)) < 1e-12


@pytest.mark.parametrize("pooling", ["gap", "flatten"])
@pytest.mark.parametrize(("kind", "trained"), [("ntk", True), ("ntk", False), ("nngp", None)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_positive_semidefinite_to_rounding(pooling: Any, kind: Any, trained: bool | None, dtype: str) -> None:
    gram = cntk(images(40, 5, 5), depth=5, pooling=pooling, kind=kind, train_first_last=trained, dtype=dtype)
    eigenvalues = np.linalg.eigvalsh(gram.astype(np.float64))
    assert eigenvalues[0] > -20 * np.finfo(dtype).eps * eigenvalues[-1]


@pytest.mark.parametrize("pooling", ["gap", "flatten"])
def test_bits_do_not_depend_on_threads_or_tiles(pooling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = images(37, 6, 6).astype(np.float32)
    whole = cntk(batch, depth=6, pooling=pooling, threads=1)
    assert np.array_equal(whole, cntk(batch, depth=6, pooling=pooling, threads=3))
    monkeypatch.setattr(sys.modules["tangentbench.kernels._passes"], "BLOCK_LIMIT", 16)
    assert np.array_equal(whole, cntk(batch, depth=6, pooling=pooling, threads=2))
