"""Kernels of networks given as layers: every backend against neural-tangents, and against each other."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from images import TOLERANCE, images, relative_error

from tangentbench.kernels import cntk, exact, myrtle, resnet50
from tangentbench.kernels._backends import native
from tangentbench.kernels.network import AveragePool, Convolution, Dense, Flatten, GlobalAveragePool, Network, Relu

needs_native = pytest.mark.skipif(not native.available(), reason="the native core was not built here")
BACKENDS = [pytest.param("native", marks=needs_native), "torch"]
NETWORKS: dict[str, Network] = {
    "myrtle": myrtle(),
    "pooled pixels": (
        AveragePool(),
        Convolution(1, weight_variance=1.0),
        Convolution(),
        AveragePool(),
        Relu(),
        GlobalAveragePool(),
        Dense(),
    ),
    "hidden dense layer": (
        Convolution(),
        Relu(),
        AveragePool(),
        Convolution(5),
        Relu(),
        Flatten(),
        Dense(),
        Relu(),
        Dense(weight_variance=2.0),
    ),
}
RESIDUAL = {"imagenet": resnet50((1, 1)), "cifar": resnet50((2,), "cifar")}
# not square, and both sides can be halved twice: XLA's compiled code crashes on 9 x 8 in float64
SIZE = (8, 12)


@functools.cache
def reference(name: str, kind: str) -> np.ndarray:
    network = {**NETWORKS, **RESIDUAL}[name]
    values: np.ndarray = exact(images(2, *SIZE), images(2, *SIZE, seed=1), network, kind, backend="neural-tangents")  # type: ignore[arg-type]
    return values


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["ntk", "nngp"])
@pytest.mark.parametrize("name", NETWORKS)
def test_agrees_with_neural_tangents(name: Any, kind: Any, dtype: str, backend: Any) -> None:
    first, second = images(2, *SIZE), images(2, *SIZE, seed=1)
    value = exact(first, second, NETWORKS[name], kind, dtype=dtype, backend=backend)
    assert relative_error(value, reference(name, kind)) < TOLERANCE[dtype]


@pytest.mark.parametrize("stem", RESIDUAL)
def test_residual_branches_and_strides_agree_with_neural_tangents(stem: Any) -> None:
    value = exact(images(2, *SIZE), images(2, *SIZE, seed=1), RESIDUAL[stem])
    assert relative_error(value, reference(stem, "ntk")) < TOLERANCE["float64"]


@needs_native
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [(4, 4), (9, 8), (11, 13), (5, 17)])
@pytest.mark.parametrize(
    "network",
    [
        myrtle(10),
        (Convolution(), AveragePool(3, 3), Relu(), Convolution(5), Relu(), GlobalAveragePool(), Dense()),
        (Convolution(), Relu(), AveragePool(), Convolution(), Relu(), Flatten(), Dense()),
    ],
    ids=["myrtle 10", "pooled by three", "flattened"],
)
def test_native_and_torch_agree_on_sides_that_do_not_divide(network: Any, size: Any, dtype: str) -> None:
    first, second = images(3, *size), images(2, *size, seed=1)  # type: ignore[misc]
    expected = exact(first, second, network, backend="torch")
    value = exact(first, second, network, dtype=dtype, backend="native")
    assert relative_error(value, expected) < TOLERANCE[dtype]


@needs_native
@pytest.mark.parametrize("pooling", ["gap", "flatten"])
def test_without_pooling_it_is_the_cntk(pooling: Any) -> None:
    """The CNTK's scale: sums over channels, and over positions where it flattens (oracle.py)."""
    gather = GlobalAveragePool() if pooling == "gap" else Flatten()
    network = (Convolution(), Relu(), Convolution(), Relu(), gather, Dense())
    batch = images(5, 6, 7)
    scale = 3 * (1 if pooling == "gap" else 6 * 7)
    expected = cntk(batch, depth=3, pooling=pooling, train_first_last=True)
    assert relative_error(scale * exact(batch, network=network), expected) < TOLERANCE["float64"]


@needs_native
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_instruction_set_gives_the_same_kernel(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = []
    for name in native.instruction_sets():
        monkeypatch.setenv(native.INSTRUCTION_SET_VARIABLE, name)
        values.append(exact(images(9, 8, 8), images(5, 8, 8, seed=1), dtype=dtype))
    for value in values[1:]:
        assert relative_error(value, values[0].astype(np.float64)) < TOLERANCE[dtype] / 2
