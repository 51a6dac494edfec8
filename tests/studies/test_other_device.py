"""Studies on a device that is not the CPU (tests/second_device.py) measure what they measure on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from second_device import computed_at_once, lazy_device, mend_split

from tangentbench.datasets import Dataset
from tangentbench.networks import leaky_mlp_device
from tangentbench.networks import stack as stacked
from tangentbench.networks.memorisation import MemorisationNets
from tangentbench.networks.mlp_shape import MlpShape
from tangentbench.networks.ntk_mlp import NtkMlpNets, TopLayers
from tangentbench.networks.penalised import Member, PenalisedNets, draw, with_bias
from tangentbench.networks.scalar_mlp import ScalarMlp
from tangentbench.studies.bounds.measure.curves import bound_curves
from tangentbench.studies.bounds.settings import Curves, Solver, Theorem, Times
from tangentbench.studies.conditioning.measure.descent import steps_against_depth
from tangentbench.studies.conditioning.settings import Descent, DescentNetworks
from tangentbench.studies.npk.measure.memorisation import memorisation
from tangentbench.studies.npk.settings import Memorisation, MemorisationDescent
from tangentbench.studies.registry import Context
from tangentbench.studies.regularised.measure.plateau import Panel, final_losses

RNG = np.random.default_rng(0)


def where_called(monkeypatch: pytest.MonkeyPatch, kind: type, method: str) -> list[str]:
    """The devices of the tensors that a method returns, growing."""
    whole, devices = getattr(kind, method), []

    def noted(self: Any, *arguments: Any) -> torch.Tensor:
        result: torch.Tensor = whole(self, *arguments)
        devices.append(result.device.type)
        return result

    monkeypatch.setattr(kind, method, noted)
    return devices


def assert_same_table(there: pd.DataFrame, here: pd.DataFrame, rtol: float) -> None:
    pd.testing.assert_frame_equal(there, here, rtol=rtol, atol=1e-6)


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    steps = computed_at_once(monkeypatch, "descend", ScalarMlp, TopLayers)
    for module in (stacked, leaky_mlp_device):
        monkeypatch.setattr(module, "current", lazy_device)
    return steps


def test_memorisation_there(monkeypatch: pytest.MonkeyPatch) -> None:
    descent = MemorisationDescent(
        learning_rate_times_rho_max=0.1, rho_max="measured", kernel_over_depth=False, steps=4, records=3, stop_below=0.0
    )
    settings = Memorisation(
        widths=(6,), depths=(3,), examples=5, gate_probability=0.5, weight_distribution="bernoulli", runs=2,
        descent=descent, converged_below=0.9, precision="float64",
    )  # fmt: skip
    measure = partial(memorisation, Context(seed=0), settings)
    here = measure()
    steps, kernels = elsewhere(monkeypatch), where_called(monkeypatch, MemorisationNets, "tangent_kernel")
    assert_same_table(measure(), here, rtol=1e-9)
    assert (steps, kernels) == (["lazy"] * 5, ["lazy"])


def test_steps_against_depth_there(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = RNG.normal(size=(6, 9)).astype(np.float32), np.zeros(6, np.int64)
    dataset = Dataset("noise", x, y, x, y, ("noise",))
    networks = DescentNetworks(width=12, max_steps=6)
    settings = Descent(
        activations=("selu",), uncentred_activations=("relu",), depths=(2,), images=5, runs=2, loss_ratio=0.5,
        top_layer=networks, all_layers=networks,
    )  # fmt: skip
    measure = partial(steps_against_depth, Context(seed=0, datasets={"noise": dataset}), settings)
    here = measure()
    steps = elsewhere(monkeypatch)
    kernels = [where_called(monkeypatch, NtkMlpNets, name) for name in ("top_kernel", "tangent_kernel")]
    assert_same_table(measure(), here, rtol=1e-9)
    assert set(steps) == {"lazy"}
    assert kernels == [["lazy"] * 2] * 2


def test_final_losses_there(monkeypatch: pytest.MonkeyPatch) -> None:
    members = [Member(3, 1e-2), Member(5, 1e-3)]
    inputs, labels = torch.rand(8, 6, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3
    panel = Panel(inputs[:4], labels[:4], inputs[4:], labels[4:], 3)
    history = pd.DataFrame({"place": [0, 1] * 6, "step": np.repeat(range(6), 2), "loss": np.linspace(2, 1, 12)})

    def nets() -> PenalisedNets:
        starts = [draw(MlpShape(2, one.width, 6, 3), torch.float32, one.width) for one in members]
        return PenalisedNets(
            members, starts, with_bias(panel.x_train, 0.5), panel.y_train, bias=0.5, loss="cross_entropy"
        )

    here = final_losses(nets(), history, panel, 0.5)
    elsewhere(monkeypatch)
    mend_split(monkeypatch)
    costs = where_called(monkeypatch, PenalisedNets, "costs")
    assert_same_table(final_losses(nets(), history, panel, 0.5), here, rtol=1e-5)
    assert costs == ["lazy"]


def whitened(count: int, side: int) -> Dataset:
    x = RNG.normal(size=(2 * count, side * side))
    labels = (x[:, 0] + 0.5 * np.abs(x[:, 1]) > 0.3).astype(np.int64)
    values, vectors = np.linalg.eigh(x[:count].T @ x[:count] / count)
    x = (x @ vectors / np.sqrt(values)).astype(np.float32)
    return Dataset(f"toy_{side}x{side}", x[:count], labels[:count], x[count:], labels[count:], ("no", "yes"))


def test_bounds_there(monkeypatch: pytest.MonkeyPatch) -> None:
    measure: Callable[[], pd.DataFrame] = partial(
        bound_curves, Context(seed=0, datasets={"toy_2x2": whitened(60, 2)}),
        Curves(
            samples=60, sides=(2,), betas=(0.1,), epsilons=(0.3,), kappas=(1,), depths=(2,), precisions=(16,),
            input_layers=("full_rank",), qs=(1,), failure_probability=0.01, width=4, runs=1,
            times=Times(end_in_learning_times=0.5, learnt_fraction=0.9, first_share=0.1, points=4),
            solver=Solver(method="adaptive", learning_rate=0.1, tolerance=1e-3), theorem=Theorem(),
        ),
    )  # fmt: skip
    here = measure()
    elsewhere(monkeypatch)
    passes = []
    activations = leaky_mlp_device.Batch.activations

    def noted(self: leaky_mlp_device.Batch, x: torch.Tensor) -> list[torch.Tensor]:
        passes.append(x.device.type)
        return activations(self, x)

    monkeypatch.setattr(leaky_mlp_device.Batch, "activations", noted)
    assert_same_table(measure(), here, rtol=1e-4)
    assert set(passes) == {"lazy"}
    # gradients of the flow, and the outputs on both sets
    assert len(passes) > 8
