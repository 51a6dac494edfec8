"""Elementwise functions of numpy on a device that is not the CPU (tests/second_device.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import erf, ndtr, owens_t
from second_device import lazy_device

from tangentbench.networks import numpy_on_torch as numpy_functions
from tangentbench.networks.numpy_on_torch import TensorArray, elementwise
from tangentbench.theory.activations import activation, known_activations
from tangentbench.theory.duals import normalised

PARAMETERS = {"leaky_relu": {"slope": 0.1}, "norm_relu": {"c": -1.5}}
VALUES = torch.linspace(-3, 3, 24).reshape(2, 3, 4)


@pytest.mark.parametrize("name", known_activations())
def test_activations_there_are_numpys_and_never_leave_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = activation(name, **PARAMETERS.get(name, {}))
    functions = [one for kind in (plain, normalised(plain)) for one in (kind.function, kind.derivative) if one]
    expected = [elementwise(function, VALUES) for function in functions]
    monkeypatch.setattr(TensorArray, "__array__", lambda *_: pytest.fail("the values came back to the CPU"))
    for function, here in zip(functions, expected, strict=True):
        there = elementwise(function, VALUES.to(lazy_device()))
        assert there.device.type == "lazy" and there.dtype == torch.float32
        torch.testing.assert_close(there.cpu(), here, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
        lambda x: x * ndtr(x),
        lambda x: np.clip(x, -1.0, 1.0) ** 2 - np.abs(x),
        lambda x: x * np.linspace(0, 1, 4),
    ],
)
def test_new_activations_need_no_torch(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = elementwise(function, VALUES)
    monkeypatch.setattr(TensorArray, "__array__", lambda *_: pytest.fail("the values came back to the CPU"))
    torch.testing.assert_close(elementwise(function, VALUES.to(lazy_device())).cpu(), here, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", [lambda x: np.asarray(x) ** 2, lambda x: owens_t(x, np.square(x)) + x])
def test_what_torch_lacks_is_numpys(function: Any) -> None:
    there = elementwise(function, VALUES.to(lazy_device()))
    assert there.device.type == "lazy"
    torch.testing.assert_close(there.cpu(), elementwise(function, VALUES))


def test_numbers_keep_double_precision() -> None:
    values = VALUES.double()
    there = elementwise(lambda x: np.multiply(x, 0.1) / 0.3, values.to(lazy_device()))
    torch.testing.assert_close(there.cpu(), values * 0.1 / 0.3, rtol=1e-15, atol=0)


def test_on_the_cpu_numpy_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_functions, "TensorArray", None)
    assert elementwise(np.cbrt, VALUES).equal(torch.from_numpy(np.cbrt(VALUES.numpy())))
