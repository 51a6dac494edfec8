"""Every backend against neural-tangents, which shares no code with them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from images import TOLERANCE, channels_first, images, nearly_constant, relative_error
from sklearn.datasets import load_sample_image

from tangentbench.kernels import cntk
from tangentbench.kernels._backends import native
from tangentbench.kernels._backends import torch as in_torch
from tangentbench.kernels._precision import DOUBTFUL_SHARE
from tangentbench.kernels.architectures import vanilla
from tangentbench.kernels.network import parts

needs_native = pytest.mark.skipif(not native.available(), reason="the native core was not built here")
KINDS = [("ntk", True), ("ntk", False), ("nngp", None)]
DEPTHS = [2, 3, 4, 6, 11, 21]
INSTRUCTION_SETS = native.instruction_sets() if native.available() else []
FAST = [(2, "gap"), (3, "gap"), (4, "gap"), (2, "flatten"), (3, "flatten"), (6, "flatten"), (11, "flatten")]


@functools.cache
def reference(
    size: tuple[int, int], depth: int, pooling: Any, kind: Any, trained: bool | None, filter: int = 3
) -> np.ndarray:
    first, second = images(2, *size), images(2, *size, seed=1)
    values: np.ndarray = cntk(
        first, second, depth, pooling, kind, trained, filter, backend="neural-tangents", progress=False
    )
    return values


@pytest.mark.parametrize("backend", [pytest.param("native", marks=needs_native), "torch"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("kind", "trained"), KINDS)
@pytest.mark.parametrize(("depth", "pooling"), FAST)
def test_agrees_with_neural_tangents(
    depth: Any, pooling: Any, kind: Any, trained: Any, dtype: str, backend: Any
) -> None:
    size = (6, 5)
    expected = reference(size, depth, pooling, kind, trained)
    first, second = images(2, *size), images(2, *size, seed=1)
    value = cntk(first, second, depth, pooling, kind, trained, dtype=dtype, backend=backend)
    assert relative_error(value, expected) < TOLERANCE[dtype]


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("depth", "pooling"), [(21, "flatten"), (11, "gap")])
def test_agrees_with_neural_tangents_when_deep(
    depth: int, pooling: Any, dtype: str, instruction_set: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(native.INSTRUCTION_SET_VARIABLE, instruction_set)
    size = (8, 8) if pooling == "flatten" else (4, 4)
    expected = reference(size, depth, pooling, "ntk", None)
    value = cntk(images(2, *size), images(2, *size, seed=1), depth, pooling, dtype=dtype, backend="native")
    assert relative_error(value, expected) < TOLERANCE[dtype]


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("filter", [1, 5])
@pytest.mark.parametrize("pooling", ["gap", "flatten"])
def test_other_filters_agree_with_neural_tangents(
    pooling: Any, filter: int, instruction_set: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(native.INSTRUCTION_SET_VARIABLE, instruction_set)
    expected = reference((6, 5), 3, pooling, "ntk", True, filter)
    value = cntk(images(2), images(2, seed=1), 3, pooling, train_first_last=True, filter=filter, backend="native")
    assert relative_error(value, expected) < TOLERANCE["float64"]


@needs_native
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("pooling", ["gap", "flatten"])
@pytest.mark.parametrize("depth", [5, 13, 21, 45])
def test_native_and_torch_agree_at_every_depth(depth: int, pooling: Any, dtype: str) -> None:
    first, second = images(3, 7, 6), images(2, 7, 6, seed=1)
    expected = cntk(first, second, depth, pooling, backend="torch")
    assert (
        relative_error(cntk(first, second, depth, pooling, dtype=dtype, backend="native"), expected) < TOLERANCE[dtype]
    )


@needs_native
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("pooling", ["gap", "flatten"])
def test_every_instruction_set_gives_the_same_kernel(pooling: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = []
    for name in native.instruction_sets():
        monkeypatch.setenv(native.INSTRUCTION_SET_VARIABLE, name)
        values.append(cntk(images(9), images(5, seed=1), 7, pooling, dtype=dtype))
    for value in values[1:]:
        assert relative_error(value, values[0].astype(np.float64)) < TOLERANCE[dtype] / 2


def china(*corners: tuple[int, int], side: int = 32) -> np.ndarray:
    """Patches of a photograph with pixels in [0, 1]."""
    photograph = load_sample_image("china.jpg") / 255.0
    return np.stack([photograph[i : i + side, j : j + side] for i, j in corners])


def photograph_patches() -> np.ndarray:
    """Five 32 x 32 patches, standardised as the paper's images are; two are neighbours."""
    patches = china((0, 0), (100, 100), (200, 300), (300, 50), (0, 1))
    return (patches - patches.mean((0, 1, 2))) / patches.std((0, 1, 2))  # type: ignore[no-any-return]


@functools.cache
def sky(pooling: str) -> np.ndarray:
    """The hardest photographs: raw, of a sky whose patches are all nearly parallel, beside one of a roof."""
    return china((0, 0), (0, 1), (3, 40), (200, 300), side=8 if pooling == "flatten" else 5).astype(np.float32)


@functools.cache
def sky_reference(depth: int, pooling: str, kind: str) -> np.ndarray:
    patches = sky(pooling).astype(np.float64)
    values: np.ndarray = cntk(patches[:1], patches[1:], depth, pooling, kind, True, backend="neural-tangents")  # type: ignore[arg-type]
    return values


@pytest.mark.parametrize("kind", ["ntk", "nngp"])
@pytest.mark.parametrize("pooling", ["gap", "flatten"])
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
def test_raw_photographs_agree_with_neural_tangents(
    instruction_set: Any, depth: Any, pooling: Any, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every instruction set this machine has, entry by entry; the first is an image with itself moved a pixel."""
    monkeypatch.setenv(native.INSTRUCTION_SET_VARIABLE, instruction_set)
    expected = sky_reference(depth, pooling, kind)
    for dtype, tolerance in TOLERANCE.items():
        patches = sky(pooling).astype(dtype)
        value = cntk(patches[:1], patches[1:], depth, pooling, kind, True, backend="native")
        assert np.abs(value / expected - 1).max() < tolerance, dtype


@needs_native
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("case", ["raw", "standardised", "noise", "ramps"])
def test_float32_holds_where_patches_are_nearly_parallel(case: str, depth: Any) -> None:
    """Images of 32 x 32 whose angles float32 cannot hold: smooth ones, so that rounding has one sign everywhere."""
    if case == "noise":
        patches = 0.5 + 1e-3 * images(4, 32, 32)
    elif case == "ramps":
        slopes = np.linspace(0.3, 0.3 + 0.01 * np.arange(1, 5), 32, axis=1)
        patches = np.broadcast_to(slopes[:, None, :, None], (4, 32, 32, 3))
    else:
        patches = photograph_patches() if case == "standardised" else china((0, 0), (0, 1), (3, 40), (200, 300))
    single = patches.astype(np.float32)
    exact = cntk(single.astype(np.float64), depth=depth, pooling="flatten")
    assert np.abs(cntk(single, depth=depth, pooling="flatten") / exact - 1).max() < TOLERANCE["float32"]


@pytest.mark.parametrize(("pooling", "depth"), [("gap", 11), ("flatten", 21)])
def test_torch_holds_nearly_constant_images_in_float32(pooling: Any, depth: int) -> None:
    """Against neural-tangents in float64; the recursion alone misses the tolerance."""
    batch = nearly_constant(3, 8 if pooling == "flatten" else 5)
    exact = cntk(batch.astype(np.float64), batch.astype(np.float64), depth, pooling, backend="neural-tangents")
    trunk, gather, _ = parts(vanilla(depth, pooling, pooling == "flatten"))
    alone, whole = (
        in_torch.sums(channels_first(one), None, trunk, gather, [len(trunk)]).ntk
        for one in (batch, batch.astype(np.float64))
    )
    assert np.abs(alone / whole - 1).max() > TOLERANCE["float32"]
    for value in (
        cntk(batch, depth=depth, pooling=pooling, backend="torch"),
        cntk(batch, batch, depth, pooling, backend="torch"),
    ):
        assert np.abs(value / exact - 1).max() < TOLERANCE["float32"]


@needs_native
@pytest.mark.parametrize("pooling", ["gap", "flatten"])
def test_torch_doubts_at_least_what_the_core_doubts(pooling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whole squares, in rectangles, and however the pairs are cut; torch counts the angles of every layer."""
    batch = channels_first(np.concatenate([nearly_constant(3, 5), images(2, 5, 5).astype(np.float32)]))
    trunk, gather, _ = parts(vanilla(11, pooling, pooling == "flatten"))
    for second in (None, batch[1:]):
        call = (batch, second, trunk, gather, [len(trunk)])
        expected = native.sums(*call, doubtful_sine=0.015).doubt
        assert 0 < (expected > DOUBTFUL_SHARE).mean() < 1
        whole = in_torch.sums(*call, doubtful_sine=0.015).doubt
        identical = np.zeros(whole.shape, dtype=bool) if second is None else np.eye(5, 4, k=-1, dtype=bool)[None]
        assert ((whole > DOUBTFUL_SHARE) | identical)[expected > DOUBTFUL_SHARE].all()
        assert (whole > DOUBTFUL_SHARE).mean() < 1
        monkeypatch.setattr(in_torch, "CPU_BYTES", 1)
        np.testing.assert_allclose(in_torch.sums(*call, doubtful_sine=0.015).doubt, whole, atol=1e-6)
        monkeypatch.undo()


@needs_native
def test_only_doubtful_entries_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sky among other images costs its own entries in double; which they are does not depend on the tile."""
    computed = []

    def counted(x1: Any, x2: Any, *arguments: Any, **options: Any) -> Any:
        computed.append((x1.dtype.name, len(x1), len(x1 if x2 is None else x2)))
        return whole(x1, x2, *arguments, **options)

    whole = native.sums
    monkeypatch.setattr(native, "sums", counted)
    batch = images(20, 8, 8).astype(np.float32)
    cntk(batch, batch[:4], depth=21, pooling="flatten")
    assert [dtype for dtype, *_ in computed] == ["float32"]
    batch[[3, 11]] = sky("flatten")[:2]
    together = cntk(batch, depth=21, pooling="flatten")
    assert [call for call in computed if call[0] == "float64"] == [("float64", 2, 2)]
    alone = cntk(batch[[11]], batch[[3]], depth=21, pooling="flatten")
    assert together[11, 3] == alone[0, 0]


@needs_native
@pytest.mark.parametrize(("pooling", "depth"), [("flatten", 4), ("flatten", 21), ("gap", 6)])
def test_float32_holds_on_photographs(pooling: Any, depth: int) -> None:
    patches = photograph_patches()[: 3 if pooling == "gap" else 5]
    exact = cntk(patches, depth=depth, pooling=pooling)
    assert np.abs(cntk(patches, depth=depth, pooling=pooling, dtype="float32") / exact - 1).max() < TOLERANCE["float32"]


@needs_native
def test_photographs_agree_with_neural_tangents() -> None:
    patches = photograph_patches()
    first, second = patches[:2], patches[2:]
    expected = cntk(first, second, 11, "flatten", backend="neural-tangents")
    assert relative_error(cntk(first, second, 11, "flatten"), expected) < TOLERANCE["float64"]
