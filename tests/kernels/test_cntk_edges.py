"""Images at the edge of the recursion: right values and never NaN; and inputs that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from images import TOLERANCE, images, relative_error

from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.kernels import cntk
from tangentbench.kernels._backends import native
from tangentbench.kernels.network import InvalidKernelInput

BACKENDS = [
    pytest.param(
        "native", marks=pytest.mark.skipif(not native.available(), reason="the native core was not built here")
    ),
    "torch",
]
each_backend = pytest.mark.parametrize("backend", BACKENDS)
each_pooling = pytest.mark.parametrize("pooling", ["gap", "flatten"])
each_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])


def identical_value(image: np.ndarray, depth: int) -> float:
    """Flatten NTK of an image with itself: all angles are zero, every layer is trained and adds the same variance."""
    theta = padded_sum(np.square(image).sum(-1))
    variance = theta
    for _ in range(depth - 2):
        theta, variance = padded_sum(theta + variance) / 9, padded_sum(variance) / 9
    return float((theta + variance).sum() / 9)


def padded_sum(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x, 1)
    height, width = x.shape
    return sum(padded[i : i + height, j : j + width] for i in range(3) for j in range(3))  # type: ignore[return-value]


@each_backend
@each_dtype
@pytest.mark.parametrize("depth", [2, 3, 11, 21])
def test_identical_images_keep_angle_zero(depth: int, dtype: Any, backend: Any) -> None:
    batch = images(3, 8, 8)
    expected = [identical_value(image, depth) for image in batch]
    diagonal = np.diag(cntk(batch, batch.copy(), depth, "flatten", dtype=dtype, backend=backend))
    assert np.allclose(diagonal, expected, rtol=1e-5 if dtype == "float32" else 1e-12, atol=0)


@each_backend
@each_dtype
@each_pooling
def test_zero_image_has_zero_kernel(pooling: Any, dtype: Any, backend: Any) -> None:
    batch = images(3)
    batch[1] = 0
    gram = cntk(batch, depth=5, pooling=pooling, dtype=dtype, backend=backend)
    assert np.all(gram[1] == 0)
    assert np.all(gram[:, 1] == 0)
    assert np.all(np.diag(gram)[[0, 2]] > 0)


@each_backend
@each_dtype
@each_pooling
@pytest.mark.parametrize("kind", ["ntk", "nngp"])
def test_zero_patches_are_harmless(kind: Any, pooling: Any, dtype: Any, backend: Any) -> None:
    batch = np.zeros((3, 9, 8, 1))
    batch[0, 4, 4], batch[1, :2, :2], batch[2, :, 5:] = 1.0, 2.0, -1.0
    gram = cntk(batch, depth=3, pooling=pooling, kind=kind, dtype=dtype, backend=backend)
    exact = cntk(batch, depth=3, pooling=pooling, kind=kind, backend="torch")
    assert np.isfinite(gram).all()
    assert relative_error(gram, exact) < (1e-4 if dtype == "float32" else 1e-9)


@each_backend
@each_dtype
@each_pooling
def test_constant_images_scale_with_their_value(pooling: Any, dtype: Any, backend: Any) -> None:
    batch = np.ones((3, 6, 6, 2)) * np.array([1.0, 3.0, -2.0])[:, None, None, None]
    gram = cntk(batch, depth=6, pooling=pooling, dtype=dtype, backend=backend)
    assert np.isfinite(gram).all()
    assert gram[0, 1] == pytest.approx(3 * gram[0, 0], rel=1e-5)
    assert gram[1, 1] == pytest.approx(9 * gram[0, 0], rel=1e-5)


@each_backend
@each_dtype
def test_one_pixel_images_are_a_fully_connected_network(dtype: Any, backend: Any) -> None:
    """A 3 x 3 filter sees one pixel and eight zeros: every layer is dense, with 1/9 of the variance."""
    batch = images(4, 1, 1, 3)
    gap, flat = (
        cntk(batch, depth=4, pooling=p, train_first_last=True, dtype=dtype, backend=backend) for p in ("gap", "flatten")
    )
    dense = cntk(batch, depth=4, pooling="flatten", filter=1, dtype=dtype, backend=backend)
    assert np.allclose(gap, flat, rtol=1e-6)
    assert relative_error(flat * 9**3, dense.astype(np.float64)) < TOLERANCE[dtype]


@each_backend
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_far_scales_do_not_overflow(scale: float, backend: Any) -> None:
    batch = images(2)
    expected = cntk(batch, depth=5)
    value = cntk((batch * scale).astype(np.float32), depth=5, backend=backend)
    assert relative_error(value.astype(np.float64) / scale**2, expected) < 1e-5


def test_result_type_follows_the_images() -> None:
    batch = images(2)
    assert cntk(batch, depth=3).dtype == np.float64
    assert cntk(batch.astype(np.float32), depth=3).dtype == np.float32
    assert cntk((batch * 50).astype(np.int16), depth=3).dtype == np.float32
    assert cntk(batch, depth=3, dtype="float32").dtype == np.float32


def test_empty_batches_give_empty_kernels() -> None:
    assert cntk(images(0), images(3), depth=3).shape == (0, 3)
    assert cntk(images(3), images(0), depth=3).shape == (3, 0)


def test_nothing_trained_means_a_zero_kernel() -> None:
    assert np.all(cntk(images(2), depth=2, pooling="gap") == 0)
    assert np.all(cntk(images(2), depth=2, pooling="gap", train_first_last=True) > 0)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"depth": 1}, InvalidKernelInput, "at least 2"),
        ({"depth": 2.5}, InvalidKernelInput, "depth is 2.5"),
        ({"filter": 4}, InvalidKernelInput, "filter is 4"),
        ({"pooling": "max"}, UnknownName, "unknown pooling 'max'"),
        ({"kind": "cntk"}, UnknownName, "unknown kind"),
        ({"backend": "numpy"}, UnknownName, "unknown backend 'numpy'"),
        ({"dtype": "float16"}, UnknownName, "unknown dtype"),
        ({"dtype": "real"}, UnknownName, "unknown dtype"),
        ({"threads": 0}, InvalidKernelInput, "threads is 0"),
        ({"x1": np.zeros((2, 6, 5))}, InvalidKernelInput, "height, width, channels"),
        ({"x1": np.zeros((2, 6, 5, 3), complex)}, InvalidKernelInput, "real numbers"),
        (
            {"x2": np.zeros((2, 6, 5, 1))},
            InvalidKernelInput,
            "6 x 5 with 3 channels and images of x2 6 x 5 with 1 channel",
        ),
        ({"x2": np.full((2, 6, 5, 3), np.nan)}, InvalidKernelInput, "x2 has 2 images"),
        ({"x1": np.full((1, 6, 5, 3), 1e300), "dtype": "float32"}, InvalidKernelInput, "infinite in float32"),
        ({"x1": np.full((1, 6, 5, 3), 1e30), "dtype": "float32"}, InvalidKernelInput, "range of float32"),
    ],
)
def test_bad_input_is_refused_with_one_sentence(change: Any, error: Any, says: str) -> None:
    arguments = {"x1": images(2), "depth": 3, **change}
    with pytest.raises(error, match=says) as caught:
        cntk(**arguments)
    assert isinstance(caught.value, TangentbenchError)


def test_without_the_core_torch_serves_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "load", lambda: "_cntk_core.so was not built")
    expected = cntk(images(2), depth=3, backend="torch")
    with pytest.warns(RuntimeWarning, match="runs in torch"):
        assert np.array_equal(cntk(images(2), depth=3), expected)
    assert native.describe() == {"available": False, "reason": "_cntk_core.so was not built"}
    with pytest.raises(native.NativeCoreMissing, match="install a C\\+\\+ compiler"):
        cntk(images(2), depth=3, backend="native")
