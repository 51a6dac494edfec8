"""Networks whose kernels or trainings are written out, on a device that is not the CPU (tests/second_device.py)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from second_device import computed_at_once, lazy_device, mend_split

from tangentbench.networks import sequence, small_mlp
from tangentbench.networks import stack as stacked
from tangentbench.networks.mlp_shape import MlpShape
from tangentbench.networks.penalised import Member, PenalisedNets, with_bias
from tangentbench.networks.penalised import draw as draw_penalised
from tangentbench.networks.small_mlp import ShallowNets, Span
from tangentbench.networks.weight_distributions import DISTRIBUTIONS
from tangentbench.studies import registry
from tangentbench.studies.registry import Context
from tangentbench.studies.tensor_programs.measure import ensembles as study
from tangentbench.studies.tensor_programs.measure.ensembles import Ensemble, Task
from tangentbench.theory.sequences import Sequences
from tangentbench.training.checkpoint import Checkpoint
from tangentbench.training.engines import full_batch
from tangentbench.training.engines.ensembles import EnsembleSchedule, train
from tangentbench.training.engines.full_batch import Stage, StagedSession, train_in_stages

RNG = np.random.default_rng(0)
SENTENCES = Sequences.of([RNG.standard_normal((2, 4)), RNG.standard_normal((3, 4))])
PIXELS = Sequences.of(list(RNG.uniform(-1, 1, (2, 3, 3))))
KERNELS: dict[str, tuple[Callable[..., torch.Tensor], Sequences]] = {
    "gru": (sequence.gru_state_kernel, SENTENCES),
    "rnn": (sequence.rnn_tangent_kernel, PIXELS),
    "transformer": (partial(sequence.transformer_state_kernel, depth=1), SENTENCES),
    "transformer_tangent": (sequence.transformer_tangent_kernel, PIXELS),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_random_networks_there_are_the_cpus(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, sequences = KERNELS[name]

    def kernel() -> torch.Tensor:
        generator = torch.Generator().manual_seed(7)
        nets = sequence.RandomNets(6, 2, DISTRIBUTIONS["laplace"], DISTRIBUTIONS["uniform"], generator)
        return function(sequences, nets)

    here = kernel()
    arrived = []

    def noted(rows: torch.Tensor) -> torch.Tensor:
        arrived.append(rows.device.type)
        return gram(rows)

    gram = sequence.gram
    monkeypatch.setattr(sequence, "current", lazy_device)
    monkeypatch.setattr(sequence, "gram", noted)
    there = kernel()
    assert there.device.type == "cpu"
    assert set(arrived) == {"lazy"}
    torch.testing.assert_close(there, here, rtol=1e-4, atol=1e-6)


INPUTS = torch.rand(4, 6, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 2, 1, 2])
SPAN, SCHEDULE = Span.of(INPUTS), EnsembleSchedule((1, 3), 3, 0.4, 0.9)


@pytest.mark.parametrize("layers", [1, 2])
def test_ensembles_there_are_the_cpus(layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def trained() -> tuple[ShallowNets, dict[str, np.ndarray]]:
        distribution, generator = DISTRIBUTIONS["gaussian"], torch.Generator().manual_seed(1)
        nets = small_mlp.draw(
            SPAN, SPAN.shape(5, layers, 3), 2, distribution, distribution, "maximal_update", generator
        )
        return nets, train(nets, SPAN, LABELS, 3, SCHEDULE, lambda epoch: torch.arange(4).roll(epoch))

    nets_here, here = trained()
    devices = computed_at_once(monkeypatch, "descend", ShallowNets)
    monkeypatch.setattr(stacked, "current", lazy_device)
    nets_there, there = trained()
    assert devices == ["lazy"] * 6
    for name, values in here.items():
        np.testing.assert_allclose(there[name], values, rtol=1e-4)
    for mine, theirs in zip(nets_here.weights, nets_there.weights, strict=True):
        torch.testing.assert_close(theirs, mine, rtol=1e-4, atol=1e-5)


def test_batches_drawn_apart_train_together_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed means the same networks, however many of them the device trains at a time."""
    task = Task(SPAN, LABELS, 3, 2, "maximal_update", EnsembleSchedule((2,), 4, 0.4, 0.9))
    ensemble = Ensemble("laplace", "all", 4, runs=5)
    size = small_mlp.bytes_per_network(SPAN.shape(4, 2, 3))
    monkeypatch.setattr(study, "_BATCH_BYTES", 2 * size)
    monkeypatch.setattr(study, "_DEVICE_BATCH_BYTES", 4 * size)
    here = task.measure(Context(seed=3), ensemble)
    batches = []

    def counted(nets: ShallowNets, *arguments: Any) -> dict[str, np.ndarray]:
        batches.append(len(nets.first))
        return train(nets, *arguments)

    monkeypatch.setattr(study, "train", counted)
    for module in (registry, stacked):
        monkeypatch.setattr(module, "current", lazy_device)
    there = task.measure(Context(seed=3), ensemble)
    assert batches == [4, 1]
    for name, values in here.items():
        np.testing.assert_allclose(there[name], values, rtol=1e-4)


MEMBERS = [Member(3, 1e-2), Member(5, 1e-3), Member(3, 1e-3, trial=1)]
STAGES = [Stage("adam", 0.05, 3), Stage("descent", 0.1, 3)]


def family(loss: str = "cross_entropy") -> PenalisedNets:
    starts = [draw_penalised(MlpShape(2, one.width, 6, 3), torch.float32, one.width, one.trial) for one in MEMBERS]
    return PenalisedNets(MEMBERS, starts, with_bias(INPUTS, 0.5), LABELS, bias=0.5, loss=loss)


@pytest.fixture
def families_elsewhere(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where steps were taken; fused updates exist for CPU and CUDA only, the same formulas serve without them."""
    devices = computed_at_once(monkeypatch, "backward", PenalisedNets)
    plain = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    monkeypatch.setattr(
        full_batch, "torch_optimiser", lambda name, given, rate: plain[name](given, lr=rate, foreach=False)
    )
    mend_split(monkeypatch)
    monkeypatch.setattr(stacked, "current", lazy_device)
    return devices


def test_penalised_families_there_are_the_cpus(request: pytest.FixtureRequest) -> None:
    mine, theirs = family(), family()
    here = train_in_stages(mine, STAGES, label="here", records=3)
    devices = request.getfixturevalue("families_elsewhere")
    there = train_in_stages(theirs, STAGES, label="there", records=3)
    assert devices == ["lazy"] * 7
    np.testing.assert_allclose(there["loss"], here["loss"], rtol=1e-4)
    assert [tensor.device.type for tensor in (theirs.first, theirs.groups[0].decay)] == ["cpu"] * 2
    for one, other in zip(mine.parameters, theirs.parameters, strict=True):
        assert other.is_leaf and other.requires_grad
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("stopped_at", [2, 4])
def test_a_killed_family_goes_on_there(stopped_at: int, families_elsewhere: list[str], tmp_path: Path) -> None:
    expected = train_in_stages(family(), STAGES, label="whole", records=3)
    file, killed = Checkpoint(tmp_path / "progress.npz", "key"), family()
    with stacked.on_device(killed):
        session = StagedSession(killed, STAGES, "killed", 3)
        for _ in range(stopped_at):
            session.advance()
        session.store(file)
    history = train_in_stages(family(), STAGES, label="again", records=3, checkpoint=file)
    np.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-5)
