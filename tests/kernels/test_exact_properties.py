"""Kernels of networks given as layers: symmetries, edges, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from images import images, relative_error

from tangentbench.kernels import exact, myrtle, resnet50
from tangentbench.kernels._backends import native
from tangentbench.kernels.network import (
    AveragePool,
    Convolution,
    Dense,
    Flatten,
    GlobalAveragePool,
    InvalidKernelInput,
    Relu,
    Residual,
    forward_operations,
)
from tangentbench.paths import find_root

needs_native = pytest.mark.skipif(not native.available(), reason="the native core was not built here")
BACKENDS = [pytest.param("native", marks=needs_native), "torch"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["ntk", "nngp"])
def test_half_a_symmetric_matrix_is_the_whole_one(kind: Any, backend: Any) -> None:
    batch = images(5, 8, 8)
    gram = exact(batch, kind=kind, backend=backend)
    assert np.array_equal(gram, gram.T)
    assert relative_error(gram, exact(batch, batch.copy(), kind=kind, backend=backend)) < 1e-13
    assert np.linalg.eigvalsh(gram)[0] > 0


@needs_native
def test_tiles_do_not_show() -> None:
    """More images than a tile has, symmetric and not."""
    batch = images(70, 4, 4)
    gram = exact(batch)
    assert np.array_equal(gram, gram.T)
    assert relative_error(gram[:3], exact(batch[:3], batch)) < 1e-13


@needs_native
def test_threads_do_not_change_a_bit() -> None:
    batch = images(20, 8, 8)
    assert np.array_equal(exact(batch, threads=1), exact(batch, threads=3))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_homogeneous_of_degree_two(scale: float, backend: Any) -> None:
    batch = images(3, 8, 8)
    values = exact(scale * batch, backend=backend)
    assert np.allclose(values, scale**2 * exact(batch, backend=backend), rtol=1e-12, atol=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_black_and_constant_images(dtype: str, backend: Any) -> None:
    """A black image has no covariance with any other; images alike have the same row."""
    batch = np.stack([np.zeros((8, 8, 3)), np.full((8, 8, 3), 0.5), np.full((8, 8, 3), 0.5), images(1, 8, 8)[0]])
    gram = exact(batch, dtype=dtype, backend=backend)
    assert np.isfinite(gram).all()
    assert (gram[0] == 0).all()
    assert relative_error(gram[1], gram[2].astype(np.float64)) < 1e-6


@pytest.mark.parametrize("backend", BACKENDS)
def test_nngp_of_a_linear_network_is_a_pooled_inner_product(backend: Any) -> None:
    """Without ReLU and with 1x1 filters the covariance is that of the pooled pixels, times the gains."""
    network = (Convolution(1, weight_variance=3.0), AveragePool(), GlobalAveragePool(), Dense(weight_variance=0.5))
    batch = images(4, 6, 5)
    pooled = batch[:, :6, :4].mean(axis=(1, 2))
    expected = 1.5 * pooled @ pooled.T / 3
    assert relative_error(exact(batch, network=network, kind="nngp", backend=backend), expected) < 1e-12
    # every layer of weights adds the covariance once
    assert relative_error(exact(batch, network=network, backend=backend), 2 * expected) < 1e-12


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ((Convolution(), Relu(), Dense()), "end the positions"),
        ((Convolution(), GlobalAveragePool(), Flatten(), Dense()), "end the positions"),
        ((Convolution(), GlobalAveragePool()), "Dense is last"),
        ((Relu(), GlobalAveragePool(), Dense()), "before it"),
        ((Convolution(), Relu(), AveragePool(), Relu(), GlobalAveragePool(), Dense()), "before it"),
        ((AveragePool(9, 9), Convolution(), GlobalAveragePool(), Dense()), "larger images"),
        ((Convolution(), Relu(), Residual((Convolution(),)), GlobalAveragePool(), Dense()), "not Gaussian"),
        ((Convolution(), Residual((Convolution(stride=2),)), GlobalAveragePool(), Dense()), "cannot be added"),
    ],
)
def test_networks_without_an_analytic_kernel_are_refused(network: Any, message: str) -> None:
    with pytest.raises(InvalidKernelInput, match=message):
        exact(images(2, 8, 8), network=network)


def test_the_native_core_says_what_it_cannot_do() -> None:
    with pytest.raises(InvalidKernelInput, match=r"cannot serve this network .*: use backend='torch'"):
        exact(images(2, 8, 8), network=resnet50((1,)), backend="native")


def test_the_builders_count_their_layers() -> None:
    def convolutions(layers: Any) -> Any:
        inner = [
            one
            for layer in layers
            for one in ((*layer.main, *layer.shortcut) if isinstance(layer, Residual) else [layer])
        ]
        return sum(isinstance(one, Convolution) for one in inner)

    assert [convolutions(myrtle(depth)) for depth in (5, 7, 10)] == [4, 6, 9]
    # ResNet-50: 49 convolutions and four projections of the shortcuts
    assert convolutions(resnet50()) == 53
    with pytest.raises(InvalidKernelInput, match="depth"):
        myrtle(6)


def test_the_example_of_the_documentation_runs() -> None:
    text = (find_root() / "docs" / "layers.md").read_text("utf-8")
    names: dict[str, Any] = {}
    exec(text.split("```python\n")[1].split("```")[0], names)
    assert np.linalg.eigvalsh(names["gram"])[0] > 0
    assert np.linalg.eigvalsh(names["covariance"])[0] > 0


def test_resnet50_takes_the_operations_it_is_known_for() -> None:
    """About 4.1 billion multiply-adds on 224 x 224 pixels (He et al. print 3.8, without the shortcuts' projections)."""
    assert 7.6e9 < forward_operations(resnet50(outputs=1000), 224, 224, 3) < 8.4e9
