"""Descent of networks with one output on a device that is not the CPU (tests/second_device.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from second_device import computed_at_once, lazy_device

from tangentbench.networks import memorisation
from tangentbench.networks import ntk_mlp as wide
from tangentbench.networks import stack as stacked
from tangentbench.networks.architecture import MemorisationSpec
from tangentbench.networks.memorisation import MemorisationNets
from tangentbench.networks.ntk_mlp import NtkMlpNets, TopLayers
from tangentbench.networks.scalar_mlp import ScalarMlp
from tangentbench.networks.stack import on_device
from tangentbench.theory.activations import activation
from tangentbench.training.checkpoint import Checkpoint
from tangentbench.training.engines.descent import descend

STEPS = [0, 1, 2, 5]


def memorisation_nets() -> MemorisationNets:
    return memorisation.draw(MemorisationSpec(8, 4, 6, 0.5, 0.5), [0, 1], seed=3)


def wide_nets() -> NtkMlpNets:
    generator = np.random.default_rng(0)
    inputs, targets = generator.normal(size=(6, 4)), generator.choice([-1.0, 1.0], (2, 6))
    return wide.draw(activation("selu"), inputs, targets, width=16, depth=3, runs=[0, 1], seed=3)


NETS: dict[str, Any] = {"memorisation": memorisation_nets, "wide": wide_nets, "top": lambda: TopLayers.of(wide_nets())}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices on which steps are taken."""
    devices = computed_at_once(monkeypatch, "descend", ScalarMlp, TopLayers)
    monkeypatch.setattr(stacked, "current", lazy_device)
    return devices


def trained(kind: str, **options: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    nets = NETS[kind]()
    measured = descend(nets, torch.tensor([0.02, 0.01]), STEPS, label=kind, **options)
    return measured, nets.state()


@pytest.mark.parametrize("kind", NETS)
def test_descent_there_gives_the_cpus_numbers(kind: str, request: pytest.FixtureRequest) -> None:
    here, weights_here = trained(kind)
    devices = request.getfixturevalue("elsewhere")
    there, weights_there = trained(kind)
    assert devices == ["lazy"] * (STEPS[-1] + 1)
    np.testing.assert_allclose(there, here, rtol=1e-4)
    for name, weights in weights_here.items():
        np.testing.assert_allclose(weights_there[name], weights, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["memorisation", "wide"])
def test_kernels_there_are_the_cpus(kind: str, elsewhere: list[str]) -> None:
    here, nets = NETS[kind]().tangent_kernel(), NETS[kind]()
    with on_device(nets):
        there = nets.tangent_kernel()
    assert there.device.type == "lazy"
    assert nets.first.device.type == "cpu"
    torch.testing.assert_close(there.cpu(), here, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", NETS)
def test_a_killed_descent_goes_on_there(kind: str, elsewhere: list[str], tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def kill(done: int) -> None:
        if done == 4:
            raise Killed

    whole, weights = trained(kind)
    checkpoint = Checkpoint(tmp_path / "state.npz", "key", every_seconds=0)
    with pytest.raises(Killed):
        trained(kind, checkpoint=checkpoint, on_step=kill)
    devices_before = len(elsewhere)
    resumed, weights_then = trained(kind, checkpoint=checkpoint)
    assert len(elsewhere) - devices_before == 3
    np.testing.assert_allclose(resumed, whole, rtol=1e-5)
    np.testing.assert_allclose(weights_then["last"], weights["last"], rtol=1e-5)
