"""The front: several networks and both kernels from one pass, precisions, scales, plans and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from images import TOLERANCE, images, relative_error
from sklearn.datasets import load_sample_image

from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.kernels import cntk, exact, myrtle, ntk, plan, resnet50
from tangentbench.kernels._backends import native
from tangentbench.kernels._backends.neural_tangents import OracleFailed
from tangentbench.kernels._passes import shared_passes
from tangentbench.kernels.architectures import vanilla
from tangentbench.kernels.network import (
    AveragePool,
    Convolution,
    Dense,
    Flatten,
    GlobalAveragePool,
    InvalidKernelInput,
    LeakyRelu,
    Pointwise,
    Relu,
    Residual,
)
from tangentbench.theory.activations import activation

needs_native = pytest.mark.skipif(not native.available(), reason="the native core was not built here")
BACKENDS = [pytest.param("native", marks=needs_native), "torch"]
FIRST, SECOND = images(3, 7, 6), images(2, 7, 6, seed=1)
ERF = Pointwise(activation("erf"))
NETWORKS: dict[str, Any] = {
    "biases and leaky ReLU": (
        Convolution(bias_variance=0.3),
        LeakyRelu(0.2),
        Convolution(5),
        Relu(),
        Flatten(),
        Dense(bias_variance=0.5),
    ),
    "frozen and strided": (
        Convolution(3, 2, trained=False),
        Relu(),
        Convolution(bias_variance=0.1, trained=False),
        Relu(),
        GlobalAveragePool(),
        Dense(trained=False),
    ),
    "local average pooling": (
        Convolution(),
        Relu(),
        Convolution(),
        Relu(),
        AveragePool(3, 1, True),
        Flatten(),
        Dense(),
    ),
    "overlapping pooling": (
        Convolution(),
        Relu(),
        AveragePool(3, 2),
        Convolution(),
        Relu(),
        GlobalAveragePool(),
        Dense(),
    ),
    "hidden dense layers": (Convolution(), Relu(), Flatten(), Dense(2, 2.0, 0.1), ERF, Dense(1, 2.0), Relu(), Dense()),
    "residual with pooling": (
        Convolution(),
        Relu(),
        Residual((Convolution(), AveragePool()), (Convolution(1, trained=False), AveragePool())),
        Relu(),
        GlobalAveragePool(),
        Dense(),
    ),
    "erf": (Convolution(weight_variance=1.5), ERF, Convolution(bias_variance=0.2), ERF, GlobalAveragePool(), Dense()),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_agrees_with_neural_tangents(name: str) -> None:
    expected = exact(FIRST, SECOND, NETWORKS[name], "both", backend="neural-tangents")
    for dtype, tolerance in TOLERANCE.items():
        value = exact(FIRST, SECOND, NETWORKS[name], "both", backend="torch", dtype=dtype)
        assert relative_error(value.ntk, expected.ntk) < tolerance
        assert relative_error(value.nngp, expected.nngp) < tolerance
    chosen = exact(FIRST, SECOND, NETWORKS[name])
    assert relative_error(chosen, expected.ntk) < TOLERANCE["float64"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("pooling", ["gap", "flatten"])
def test_several_depths_and_both_kernels_are_those_apart(pooling: Any, backend: Any) -> None:
    depths = [4, 2, 7, 4]
    together = cntk(FIRST, SECOND, depths, pooling, "both", backend=backend)
    for number, depth in enumerate(depths):
        for kind in ("ntk", "nngp"):
            alone = cntk(FIRST, SECOND, depth, pooling, kind, backend=backend)
            np.testing.assert_allclose(getattr(together, kind)[number], alone, rtol=1e-13, atol=0)
    assert len(shared_passes([vanilla(depth, pooling) for depth in depths])) == 1
    # the Myrtle network begins like the other
    assert len(shared_passes([vanilla(3, "gap"), vanilla(3, "flatten"), myrtle()])) == 2


def test_the_two_scales_differ_by_channels_and_positions() -> None:
    for pooling, factor in (("gap", 3), ("flatten", 3 * 7 * 6)):
        paper, theirs = (cntk(FIRST, depth=3, pooling=pooling, scale=scale) for scale in ("paper", "neural-tangents"))  # type: ignore[arg-type]
        np.testing.assert_allclose(paper, factor * theirs, rtol=1e-14)


def layer_lists() -> Any:
    variance, bias = st.floats(0.5, 3.0), st.sampled_from([0.0, 0.2])
    convolution = st.builds(
        Convolution, st.sampled_from([1, 3, 5]), st.sampled_from([1, 1, 2]), st.just(4), variance, bias, st.booleans()
    )
    active = st.one_of(st.just(Relu()), st.builds(LeakyRelu, st.floats(-0.5, 0.9)))
    pool = st.builds(AveragePool, st.sampled_from([1, 2, 3]), st.sampled_from([1, 2]), st.just(True))
    stage = st.tuples(convolution, active) | st.tuples(convolution, pool, active)
    end = st.sampled_from([GlobalAveragePool(), Flatten()])
    dense = st.builds(Dense, st.just(1), variance, bias, st.booleans())
    return st.builds(lambda s, g, d: (*sum(s, ()), g, d), st.lists(stage, min_size=1, max_size=3), end, dense)


@settings(max_examples=15, deadline=None)
@given(layer_lists())
def test_random_networks_have_kernels(network: Any) -> None:
    """Symmetric, positive, the same in both precisions and, where it serves them, in the core."""
    batch = images(4, 9, 8)
    both = exact(batch, network=network, kind="both", backend="torch")
    for gram in (both.ntk, both.nngp):
        assert np.array_equal(gram, gram.T)
        assert np.linalg.eigvalsh(gram)[0] >= -1e-12 * np.abs(gram).max()
    chosen, single = (exact(batch, batch[:2], network, "both", dtype=dtype) for dtype in ("float64", "float32"))
    for name in ("ntk", "nngp"):
        whole = getattr(both, name)
        assert relative_error(getattr(chosen, name), whole[:, :2]) < 1e-11
        assert relative_error(getattr(single, name), whole[:, :2]) < TOLERANCE["float32"]


def sky() -> np.ndarray:
    photograph = load_sample_image("china.jpg") / 255.0
    return np.stack([photograph[i : i + 8, j : j + 8] for i, j in ((0, 0), (0, 1), (3, 40), (200, 300))])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "network", [myrtle(7), vanilla(21, "flatten"), (*vanilla(6)[:-2], AveragePool(3, 1, True), Flatten(), Dense())]
)
@pytest.mark.parametrize("batch", [sky(), 0.8 + 1e-3 * images(3, 8, 8)], ids=["sky", "nearly constant"])
def test_float32_holds_for_every_network(batch: np.ndarray, network: Any, backend: Any) -> None:
    single = batch.astype(np.float32)
    if backend == "native" and native.refusal(network[:-1], (8, 8)):
        pytest.skip("the core has no such layer")
    expected = exact(single.astype(np.float64), network=network, backend="torch")
    value = exact(single, network=network, backend=backend)
    assert np.abs(value / expected - 1).max() < TOLERANCE["float32"]


@pytest.mark.parametrize(("size", "depth"), [((6, 6), 501), ((1, 1), 33), ((2, 2), 90)])
def test_float32_is_right_or_says_why_not_when_deep(size: Any, depth: int) -> None:
    batch = images(2, *size)
    expected = cntk(batch, depth=depth, pooling="flatten", backend="torch")
    try:
        value = cntk(batch.astype(np.float32), depth=depth, pooling="flatten")
    except InvalidKernelInput as error:
        assert "range of float32" in str(error)
    else:
        assert np.abs(value / expected - 1).max() < TOLERANCE["float32"]


def test_what_float64_cannot_hold_is_an_error() -> None:
    with pytest.raises(InvalidKernelInput, match="range of float64"):
        cntk(images(2, 1, 1), depth=501, pooling="flatten")


@pytest.mark.parametrize("scale", [1e-22, 1e17])
def test_far_scales_are_right_or_an_error(scale: float) -> None:
    batch = images(2).astype(np.float32)
    expected = scale**2 * exact(batch.astype(np.float64), network=vanilla(4))
    wide = exact(batch.astype(np.float64) * scale, network=vanilla(4))
    assert np.abs(wide / expected - 1).max() < 1e-9
    if scale < 1:
        with pytest.raises(InvalidKernelInput, match="range of float32"):
            exact(batch * np.float32(scale), network=vanilla(4))
    else:
        assert np.abs(exact(batch * np.float32(scale), network=vanilla(4)) / expected - 1).max() < 1e-5


@pytest.mark.parametrize(
    "given", [lambda x: x.astype(">f8"), lambda x: x.astype(np.longdouble), torch.from_numpy, np.ndarray.tolist]
)
def test_precision_is_that_of_the_images(given: Any) -> None:
    batch = images(2)
    value = cntk(given(batch), depth=3)
    assert value.dtype == np.float64
    np.testing.assert_array_equal(value, cntk(batch, depth=3))


def test_plans_name_the_backend_and_its_price() -> None:
    small, large = (plan(myrtle(), (count, 16, 16, 3)) for count in (10, 100))
    assert large.processor_seconds > 50 * small.processor_seconds > 0
    assert plan(NETWORKS["erf"], (4, 8, 8, 3)).backend == "torch"
    assert plan(vanilla(3), (4, 8, 8, 3), backend="neural-tangents").reason == "it was asked for"


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"threads": "2"}, InvalidKernelInput, "threads is '2'"),
        ({"threads": 1.5}, InvalidKernelInput, "threads is 1.5"),
        ({"train_first_last": "no"}, InvalidKernelInput, "train_first_last is 'no'"),
        ({"scale": "mine"}, UnknownName, "unknown scale"),
        ({"kind": ("ntk", "cntk")}, UnknownName, "unknown kind 'cntk'"),
        ({"depth": [3, 1]}, InvalidKernelInput, "depth is 1"),
    ],
)
def test_bad_settings_are_refused_with_one_sentence(change: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        cntk(**{"x1": images(2), "depth": 3, **change})


def test_channels_first_images_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="channels first"):
        cntk(np.ones((2, 3, 8, 8)), depth=2)


def test_infinite_tangent_kernels_are_refused() -> None:
    network = (Convolution(), Pointwise(activation("step")), GlobalAveragePool(), Dense())
    with pytest.raises(InvalidKernelInput, match="jumps"):
        exact(images(2), network=network)
    assert np.isfinite(exact(images(2), network=network, kind="nngp")).all()
    with pytest.raises(InvalidKernelInput, match="jumps"):
        ntk(images(2).reshape(2, -1), depth=2, activation="step")


def test_an_oracle_that_cannot_answer_says_so() -> None:
    network = (Convolution(), Pointwise(activation("selu")), GlobalAveragePool(), Dense())
    with pytest.raises(OracleFailed, match="no closed form of selu"):
        exact(images(1), network=network, backend="neural-tangents")
    assert issubclass(OracleFailed, TangentbenchError)


def test_residual_networks_run_by_their_short_name() -> None:
    gram = exact(images(2, 8, 8), network=resnet50((1, 1)))
    assert np.linalg.eigvalsh(gram)[0] > 0
