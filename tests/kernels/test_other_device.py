"""Kernels of networks on a device that is not the CPU (tests/second_device.py)."""

from __future__ import annotations

import numpy as np
import pytest
from second_device import lazy_device

from tangentbench.kernels import gradient_features
from tangentbench.kernels._backends import torch as in_torch
from tangentbench.kernels.architectures import vanilla
from tangentbench.kernels.gradient_features import GradientKernel
from tangentbench.kernels.network import parts
from tangentbench.networks.ntk_cnn import NtkCnnNets, NtkCnnSpec  # type: ignore[attr-defined]


def test_gradient_features_there_are_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    nets = NtkCnnNets(NtkCnnSpec("fc", 3, 16, (2, 2, 3)), [0], seed=1)
    images = np.random.default_rng(0).random((5, 2, 2, 3))
    here = GradientKernel(nets)(images, None)
    monkeypatch.setattr(gradient_features, "current", lazy_device)
    np.testing.assert_allclose(GradientKernel(nets)(images, None), here, rtol=1e-4)


def test_torch_recursion_there_is_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    trunk, gather, _ = parts(vanilla(3, "flatten"))
    images = np.random.default_rng(0).random((3, 2, 4, 4))
    call = (images, None, trunk, gather, [2, len(trunk)])
    here = in_torch.sums(*call, doubtful_sine=0.5)
    monkeypatch.setattr(in_torch, "current", lazy_device)
    there = in_torch.sums(*call, doubtful_sine=0.5)
    for one, other in ((there.nngp, here.nngp), (there.ntk, here.ntk), (there.doubt, here.doubt)):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert (there.doubt > 0).any()
