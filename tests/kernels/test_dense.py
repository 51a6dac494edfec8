"""NTK and NNGP of dense networks against neural-tangents, against each other and at their limits."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from images import relative_error
from scipy.special import erf

from tangentbench.errors import UnknownName
from tangentbench.kernels import cntk, ntk
from tangentbench.kernels._backends.neural_tangents_compat import stax
from tangentbench.kernels.network import InvalidKernelInput
from tangentbench.theory.activations import activation

RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.standard_normal((4, 7)), RNG.standard_normal((3, 7))
LAYERS: dict[str, Any] = {
    "relu": stax.Relu,
    "erf": stax.Erf,
    "identity": stax.Identity,
    "leaky_relu:0.2": lambda: stax.LeakyRelu(0.2),
}


@pytest.mark.parametrize("kind", ["ntk", "nngp"])
@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("name", LAYERS)
def test_agrees_with_neural_tangents(name: Any, depth: int, kind: Any) -> None:
    layers = [stax.Dense(1, W_std=1.3, b_std=0.4, parameterization="ntk")]
    for _ in range(depth - 1):
        layers += [LAYERS[name](), layers[0]]
    *_, kernel = stax.serial(*layers)
    with jax.enable_x64(True):
        expected = np.asarray(kernel(FIRST, SECOND, kind))
    value = ntk(FIRST, SECOND, depth=depth, activation=name, weight_std=1.3, bias_std=0.4, kind=kind)
    assert relative_error(value, expected) < 1e-12


@pytest.mark.parametrize("given", [erf, type("Erf", (), {"function": staticmethod(erf)})()])
def test_quadrature_meets_the_closed_form(given: Any) -> None:
    settings = {"depth": 3, "weight_std": 1.2, "bias_std": 0.3}
    expected = ntk(FIRST, activation="erf", **settings)  # type: ignore[arg-type]
    assert relative_error(ntk(FIRST, activation=given, **settings), expected) < 1e-8  # type: ignore[arg-type]


def test_catalogue_activations_are_found() -> None:
    expected = ntk(FIRST, depth=3, activation="leaky_relu:0.3")
    assert np.array_equal(ntk(FIRST, depth=3, activation=activation("leaky_relu", slope=0.3)), expected)
    assert np.isfinite(ntk(FIRST, depth=2, activation="selu")).all()


def test_one_pixel_convolutions_are_dense_layers() -> None:
    """Section 3's kernel, d / 2 times ours, is the CNTK of one-pixel images with 1 x 1 filters."""
    images = FIRST[:, None, None, :]
    convolutional = cntk(images, depth=4, pooling="flatten", filter=1)
    assert relative_error(ntk(FIRST, depth=4) * FIRST.shape[1] / 2, convolutional) < 1e-12


def test_zero_and_identical_rows() -> None:
    rows = np.vstack([FIRST[:1], FIRST[:1], np.zeros((1, 7))])
    gram = ntk(rows, depth=4)
    assert np.isfinite(gram).all()
    assert gram[0, 0] == pytest.approx(gram[0, 1], rel=1e-14)
    assert np.all(gram[2] == 0)
    assert gram[0, 0] == pytest.approx(4 * 2 * np.square(rows[0]).mean(), rel=1e-12)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"depth": 0}, InvalidKernelInput, "depth is 0"),
        ({"x1": np.zeros(3)}, InvalidKernelInput, "shape"),
        ({"x1": np.full((2, 7), np.inf)}, InvalidKernelInput, "row 0"),
        ({"x2": np.zeros((2, 3))}, InvalidKernelInput, "7 features and x2 3"),
        ({"activation": "relo"}, UnknownName, "did you mean relu"),
        ({"kind": "x"}, UnknownName, "unknown kind"),
        ({"activation": 3}, InvalidKernelInput, "activation is 3"),
    ],
)
def test_bad_input_is_refused(change: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        ntk(**{"x1": FIRST, "depth": 2, **change})
