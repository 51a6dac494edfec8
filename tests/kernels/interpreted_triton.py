"""The Triton kernel interpreted on the CPU, against the native core; test_cntk_triton.py runs this file.

A process of its own with TRITON_INTERPRET=1 from the start: Triton reads it when it is first imported, which another
test's torch may have done already.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from images import TOLERANCE, channels_first, images, nearly_constant, relative_error

from tangentbench.errors import TangentbenchError
from tangentbench.kernels import cntk
from tangentbench.kernels._backends import native, triton
from tangentbench.kernels.architectures import vanilla
from tangentbench.kernels.network import parts


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("depth", "pooling", "kind", "trained", "size", "filter"),
    [
        (4, "gap", "ntk", False, (4, 3), 3),
        (3, "gap", "ntk", True, (3, 5), 3),
        (3, "gap", "nngp", None, (2, 3), 5),
        (2, "gap", "ntk", False, (2, 2), 3),
        (11, "flatten", "ntk", True, (8, 7), 3),
        (21, "flatten", "nngp", None, (5, 4), 3),
        (4, "flatten", "ntk", True, (1, 1), 3),
    ],
)
def test_interpreted_kernel_agrees_with_the_core(
    depth: int, pooling: Any, kind: Any, trained: bool | None, size: Any, filter: int, dtype: str
) -> None:
    first, second = images(1, *size), images(2, *size, seed=1)  # type: ignore[misc]
    expected = cntk(first, second, depth, pooling, kind, trained, filter)
    value = cntk(first, second, depth, pooling, kind, trained, filter, dtype=dtype, backend="triton")
    assert relative_error(value, expected) < TOLERANCE[dtype]


@pytest.mark.parametrize(("depth", "pooling", "side"), [(21, "flatten", 4), (21, "gap", 2)])
def test_nearly_constant_images_hold_in_float32(depth: int, pooling: Any, side: int) -> None:
    """Against the core in float64; the kernel alone misses the tolerance, and doubts what the core doubts."""
    batch = nearly_constant(2, side)
    exact = cntk(batch.astype(np.float64), depth=depth, pooling=pooling)
    pixels, (trunk, gather, _) = channels_first(batch), parts(vanilla(depth, pooling, pooling == "flatten"))
    for second in (None, pixels):
        call = (pixels, second, trunk, gather, [len(trunk)])
        alone = triton.sums(*call, doubtful_sine=0.05)
        core = native.sums(*call, doubtful_sine=0.05)
        wide = None if second is None else second.astype(np.float64)
        double = native.sums(pixels.astype(np.float64), wide, trunk, gather, [len(trunk)])
        assert np.abs(alone.ntk / double.ntk - 1).max() > TOLERANCE["float32"]
        np.testing.assert_allclose(alone.doubt, core.doubt, atol=1e-3)
    value = cntk(batch, depth=depth, pooling=pooling, backend="triton")
    assert np.abs(value / exact - 1).max() < TOLERANCE["float32"]


def test_symmetric_matrix_takes_half_the_programs_and_equals_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = images(3, 4, 4)
    whole = cntk(batch, batch, 4, "flatten", backend="triton")
    pairs = []
    real = triton.pair_sums
    monkeypatch.setattr(
        triton,
        "pair_sums",
        lambda a, b, rows, *rest: (pairs.append(len(rows)), real(a, b, rows, *rest))[1],  # type: ignore[func-returns-value]
    )
    half = cntk(batch, depth=4, pooling="flatten", backend="triton")
    assert pairs == [6, 6]
    np.testing.assert_allclose(half, whole, rtol=1e-12)


def test_identical_constant_and_empty_images_are_exact() -> None:
    batch = np.stack([np.zeros((3, 4, 1)), np.ones((3, 4, 1)), np.ones((3, 4, 1))])
    value = cntk(batch, depth=6, pooling="flatten", backend="triton")
    assert relative_error(value, cntk(batch, depth=6, pooling="flatten")) < 1e-12
    assert (value[0] == 0).all()


def test_launches_cut_the_pairs_without_changing_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = images(2, 3, 3), images(3, 3, 3, seed=1)
    whole = cntk(first, second, 3, "gap", backend="triton")
    monkeypatch.setattr(triton, "PARTIAL_BYTES", 8 * 9 * 4)
    np.testing.assert_array_equal(cntk(first, second, 3, "gap", backend="triton"), whole)


def test_images_too_large_for_registers_are_refused() -> None:
    with pytest.raises(TangentbenchError, match="100 x 100"):
        cntk(images(1, 100, 100, 1), depth=3, pooling="flatten", backend="triton")
