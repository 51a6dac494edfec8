"""Every backend against neural-tangents, which shares no code with them."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from images import TOLERANCE, images, relative_error

from tangentbench.kernels import cntk, native

needs_native = pytest.mark.skipif(not native.available(), reason="the native core was not built here")
KINDS = [("ntk", True), ("ntk", False), ("nngp", None)]
FAST = [(2, "gap"), (3, "gap"), (4, "gap"), (2, "flatten"), (3, "flatten"), (6, "flatten"), (11, "flatten")]


@functools.cache
def reference(size: tuple[int, int], depth: int, pooling: str, kind: str, trained: bool | None, filter: int = 3) -> np.ndarray:
    first, second = images(2, *size), images(2, *size, seed=1)
    return cntk(first, second, depth, pooling, kind, trained, filter, backend="neural-tangents", progress=False)


@pytest.mark.parametrize("backend", [pytest.param("native", marks=needs_native), "torch"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("kind", "trained"), KINDS)
@pytest.mark.parametrize(("depth", "pooling"), FAST)
def test_agrees_with_neural_tangents(depth, pooling, kind, trained, dtype, backend):
    size = (6, 5)
    expected = reference(size, depth, pooling, kind, trained)
    first, second = images(2, *size), images(2, *size, seed=1)
    value = cntk(first, second, depth, pooling, kind, trained, dtype=dtype, backend=backend)
    assert relative_error(value, expected) < TOLERANCE[dtype]


@needs_native
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("depth", "pooling"), [(21, "flatten"), (11, "gap")])
def test_agrees_with_neural_tangents_when_deep(depth, pooling, dtype):
    size = (8, 8) if pooling == "flatten" else (4, 4)
    expected = reference(size, depth, pooling, "ntk", None)
    value = cntk(images(2, *size), images(2, *size, seed=1), depth, pooling, dtype=dtype, backend="native")
    assert relative_error(value, expected) < TOLERANCE[dtype]


@needs_native
@pytest.mark.parametrize("filter", [1, 5])
@pytest.mark.parametrize("pooling", ["gap", "flatten"])
def test_other_filters_agree_with_neural_tangents(pooling, filter):
    expected = reference((6, 5), 3, pooling, "ntk", True, filter)
    value = cntk(images(2), images(2, seed=1), 3, pooling, train_first_last=True, filter=filter, backend="native")
    assert relative_error(value, expected) < TOLERANCE["float64"]


@needs_native
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("pooling", ["gap", "flatten"])
@pytest.mark.parametrize("depth", [5, 13, 21, 45])
def test_native_and_torch_agree_at_every_depth(depth, pooling, dtype):
    first, second = images(3, 7, 6), images(2, 7, 6, seed=1)
    expected = cntk(first, second, depth, pooling, backend="torch")
    assert relative_error(cntk(first, second, depth, pooling, dtype=dtype, backend="native"), expected) < TOLERANCE[dtype]


@needs_native
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("pooling", ["gap", "flatten"])
def test_every_instruction_set_gives_the_same_kernel(pooling, dtype, monkeypatch):
    values = []
    for name in native.instruction_sets():
        monkeypatch.setenv(native.INSTRUCTION_SET_VARIABLE, name)
        values.append(cntk(images(9), images(5, seed=1), 7, pooling, dtype=dtype))
    for value in values[1:]:
        assert relative_error(value, values[0].astype(np.float64)) < TOLERANCE[dtype] / 2
