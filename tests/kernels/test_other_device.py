"""Kernels of networks on a device that is not the CPU (tests/second_device.py)."""

from __future__ import annotations

import numpy as np
import pytest
from second_device import lazy_device

from tangentbench.kernels import gradient_features, recursion_torch
from tangentbench.kernels.architecture import CntkSpec
from tangentbench.kernels.gradient_features import GradientKernel
from tangentbench.networks.ntk_cnn import NtkCnnNets, NtkCnnSpec  # type: ignore[attr-defined]


def test_gradient_features_there_are_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    nets = NtkCnnNets(NtkCnnSpec("fc", 3, 16, (2, 2, 3)), [0], seed=1)
    images = np.random.default_rng(0).random((5, 2, 2, 3))
    here = GradientKernel(nets)(images, None)
    monkeypatch.setattr(gradient_features, "current", lazy_device)
    np.testing.assert_allclose(GradientKernel(nets)(images, None), here, rtol=1e-4)


def test_torch_recursion_there_is_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    architecture = CntkSpec.checked(3, "flatten", "ntk", None, 3)
    images = np.random.default_rng(0).random((3, 2, 4, 4))
    here = recursion_torch.rectangle(images, None, architecture, 0.5, "cpu")
    monkeypatch.setattr(recursion_torch, "current", lazy_device)
    there = recursion_torch.rectangle(images, None, architecture, 0.5)
    np.testing.assert_allclose(there, here, rtol=1e-6)
    assert (there[1] > 0).any()
