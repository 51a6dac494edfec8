"""Training on a device that is not the CPU (tests/second_device.py)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._lazy
from second_device import lazy_device

from tangentbench.networks import stack
from tangentbench.networks.architecture import convolutional, fully_connected
from tangentbench.networks.deep_architecture import DeepArchitecture, Normalisation
from tangentbench.networks.gated import RELU, GatedNets, build, decoupled
from tangentbench.networks.resnet_runs import ModuleRuns, draw_runs
from tangentbench.networks.resnets import ResNet
from tangentbench.networks.stack import move
from tangentbench.training import loop, optimisers, representations
from tangentbench.training.batches import Examples
from tangentbench.training.checkpoint import Checkpoint
from tangentbench.training.loop import Probe, Trained, TrainingRecipe, TrainingRuns, train
from tangentbench.training.optimisers import Optimiser
from tangentbench.training.representations import dot_product_probe, mean_dot_product

SEED, RUNS, SIZES = 5, [0, 1, 2], [0.05, 0.05, 0.1]


@pytest.fixture(autouse=True)
def plain_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused updates exist for CPU and CUDA, not for this device; the same formulas serve without them."""

    lazy_device()
    descend = loop.TrainingSession.descend

    def computed(*arguments: Any) -> Any:
        """A step whose numbers are computed before the next one: this device would put them off for ever."""
        result = descend(*arguments)
        torch._lazy.mark_step()
        return result

    def plain(make: Callable[..., torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
        def made(rows: list[dict[str, Any]], optimiser: Optimiser) -> torch.optim.Optimizer:
            updates = make(rows, optimiser)
            for settings in (updates.defaults, *updates.param_groups):
                settings["fused"], settings["foreach"] = False, False
            return updates

        return made

    monkeypatch.setattr(loop.TrainingSession, "descend", computed)
    slow = {name: dataclasses.replace(rule, build=plain(rule.build)) for name, rule in optimisers.OPTIMISERS.items()}
    monkeypatch.setattr(optimisers, "OPTIMISERS", slow)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "current", lazy_device)


def vectors(count: int = 60) -> Examples:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 3
    return Examples(
        2 * torch.randn(3, 5, generator=generator)[labels] + torch.randn(count, 5, generator=generator), labels
    )


def nets_of() -> GatedNets:
    return build(fully_connected((5,), 8, 3, 3), RELU, RUNS, SEED)


def trained(nets: GatedNets, recipe: TrainingRecipe, examples: Examples, **options: Any) -> Trained:
    settings = {"label": "elsewhere", "evaluate": {"test": examples}}
    return train(nets, examples, recipe, TrainingRuns(RUNS, SIZES, SEED), **(settings | options))


@pytest.mark.parametrize("optimiser", [Optimiser("sgd", momentum=0.9), Optimiser("adam"), Optimiser("rmsprop")])
def test_other_device_gives_the_cpus_numbers(optimiser: Optimiser, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = TrainingRecipe(epochs=1, batch_size=30, optimiser=optimiser, backend="torch")
    here = trained(nets_of(), recipe, vectors())
    monkeypatch.setattr(stack, "current", lazy_device)
    nets = nets_of()
    there = trained(nets, recipe, vectors())
    for mine, theirs in ((here.last, there.last), (here.best, there.best)):
        assert theirs.device.type == "cpu"
        torch.testing.assert_close(theirs, mine, rtol=1e-4, atol=1e-5)
    assert nets.parameters["value_weight_1"].device.type == "cpu"


def test_gated_networks_train_there(elsewhere: None) -> None:
    nets = build(fully_connected((5,), 8, 3, 3), decoupled(beta=4.0, height=1.0), RUNS, SEED)
    before = nets.parameters.rows()
    result = trained(nets, TrainingRecipe(epochs=1, batch_size=30), vectors())
    assert torch.isfinite(result.last).all()
    assert not torch.equal(result.last, before)


def test_convolutions_make_nothing_on_the_cpu() -> None:
    """The lazy device has no means over images; tensors without numbers tell as well which device they are on."""
    architecture = convolutional((6, 6, 2), [4, 4], [5], 3, pooled=True)
    nets = build(architecture, decoupled(beta=4.0, height=1.0), RUNS, SEED)
    move(nets, "meta")
    outputs = nets.outputs(torch.empty(len(RUNS), 7, 6, 6, 2, device="meta"), training=True)
    assert outputs.shape == (len(RUNS), 7, 3)
    outputs.sum().backward()  # type: ignore[no-untyped-call]
    assert all(tensor.grad is not None and tensor.grad.is_meta for tensor in nets.parameters.tensors.values())


@pytest.mark.parametrize("normalisation", ["batch_norm", "fixup"])
def test_modules_follow_their_stacks(normalisation: Normalisation) -> None:
    architecture = DeepArchitecture("resnet", 8, 4, normalisation, (3, 16, 16), 3)
    nets = ModuleRuns([ResNet(architecture, seed) for seed in (0, 1)])
    move(nets, "meta")
    outputs = nets.outputs(torch.empty(2, 3, 3, 8, 8, device="meta"), training=True)
    outputs.sum().backward()  # type: ignore[no-untyped-call]
    assert all(parameter.is_meta for network in nets.networks for parameter in network.parameters())
    assert all(tensor.grad is not None and tensor.grad.is_meta for tensor in nets.parameters.tensors.values())


def test_probes_and_augmentation_see_the_cpu(elsewhere: None) -> None:
    seen = []

    def measure(nets: GatedNets, runs: list[int], at: int) -> list[dict[str, float]]:
        seen.append(nets.parameters["value_weight_1"].device.type)
        return [{"norm": float(nets.outputs(torch.ones(len(runs), 1, 5)).detach().norm())}]

    def augment(inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return inputs + torch.randn(inputs.shape, generator=generator)

    recipe = TrainingRecipe(epochs=1, batch_size=20, augment=augment)
    probe = Probe(measure, epochs=frozenset({0, 1}), steps=frozenset({2}))  # type: ignore[arg-type]
    trained(nets_of(), recipe, vectors(), probes=[probe])
    assert seen == ["cpu"] * 3


def test_dot_products_are_measured_there(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.randn(30, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    examples = Examples(inputs, torch.arange(30) % 3)

    def measured() -> list[float]:
        nets = draw_runs(DeepArchitecture("fc", 2, 5, "norm_relu", (3, 2, 2), 3, fan="fan_in"), RUNS, 0)
        probes = [dot_product_probe(inputs, [0, 1])]
        found = trained(nets, TrainingRecipe(epochs=1, batch_size=15), examples, probes=probes)  # type: ignore[arg-type]
        return found.measured["dot_product"].tolist()

    here, seen = measured(), []

    def noted(representations: torch.Tensor, absolute: bool) -> torch.Tensor:
        seen.append(representations.device.type)
        return mean_dot_product(representations, absolute)

    monkeypatch.setattr(representations, "mean_dot_product", noted)
    monkeypatch.setattr(stack, "current", lazy_device)
    assert measured() == pytest.approx(here, rel=1e-4, abs=1e-5)
    assert seen == ["lazy"] * 2


def test_a_killed_training_goes_on_there(elsewhere: None, tmp_path: Path) -> None:
    whole = trained(nets_of(), TrainingRecipe(epochs=2, batch_size=30, optimiser=Optimiser(momentum=0.9)), vectors())
    file = Checkpoint(tmp_path / "progress.npz", "key")
    trained(
        nets_of(),
        TrainingRecipe(epochs=1, batch_size=30, optimiser=Optimiser(momentum=0.9)),
        vectors(),
        checkpoint=file,
    )
    resumed = trained(
        nets_of(),
        TrainingRecipe(epochs=2, batch_size=30, optimiser=Optimiser(momentum=0.9)),
        vectors(),
        checkpoint=file,
    )
    torch.testing.assert_close(resumed.last, whole.last, rtol=1e-5, atol=1e-6)
