"""Families of penalised networks: trained together they take the steps each would take alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tangentbench.errors import Diverged, UnknownName
from tangentbench.networks.mlp_shape import MlpShape
from tangentbench.networks.penalised import Member, PenalisedNets, Rotated, draw, with_bias
from tangentbench.training.checkpoint import Checkpoint
from tangentbench.training.engines.full_batch import Stage, train_in_stages

BIAS, INPUTS, OUTPUTS, EXAMPLES = 0.5, 6, 3, 9
MEMBERS = [Member(4, 1e-2), Member(2, 1e-1), Member(4, 1e-3, 1), Member(7, 1e-2)]
STAGES = [Stage("adam", 0.01, 12), Stage("descent", 0.05, 9)]


def data(loss: str = "cross_entropy") -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(EXAMPLES, INPUTS, generator=generator, dtype=torch.float64)
    if loss == "cross_entropy":
        return inputs, torch.arange(EXAMPLES) % OUTPUTS
    return inputs, torch.randn(EXAMPLES, OUTPUTS, generator=generator, dtype=torch.float64)


def start(member: Member) -> list[Tensor]:
    return draw(MlpShape(3, member.width, INPUTS, OUTPUTS), torch.float64, 5, member.width, member.trial)


def family(members: list[Member], loss: str = "cross_entropy") -> PenalisedNets:
    inputs, labels = data(loss)
    starts = [start(member) for member in members]
    return PenalisedNets(members, starts, with_bias(inputs, BIAS), labels, bias=BIAS, loss=loss)


def alone(member: Member, loss: str, stages: list[Stage]) -> tuple[list[Tensor], Tensor]:
    """The loop anyone would write: Linear layers, autograd on cost plus penalty, torch's own optimisers."""
    inputs, labels = data(loss)
    layers = [torch.nn.Linear(w.shape[1] - 1, w.shape[0], dtype=torch.float64) for w in start(member)]
    for layer, weights in zip(layers, start(member), strict=True):
        layer.weight.data, layer.bias.data = weights[:, :-1].clone(), weights[:, -1].clone()
    parameters = [value for layer in layers for value in (layer.weight, layer.bias)]

    def value() -> Tensor:
        signal = inputs
        for layer in layers:
            signal = (torch.relu(signal) if layer is not layers[0] else signal) @ layer.weight.T + BIAS * layer.bias
        if loss == "cross_entropy":
            cost = torch.nn.functional.cross_entropy(signal, labels)
        else:
            cost = (signal - labels).square().sum() / EXAMPLES
        return cost + member.penalty * sum(one.square().sum() for one in parameters)

    for stage in stages:
        make = {"adam": torch.optim.Adam, "descent": torch.optim.SGD}[stage.optimiser]
        optimiser = make(parameters, lr=stage.step)
        for _ in range(stage.steps):
            optimiser.zero_grad()
            value().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return [torch.cat([one.weight, one.bias[:, None]], dim=1).detach() for one in layers], value().detach()


@pytest.mark.parametrize("loss", ["cross_entropy", "squared_norm"])
def test_together_as_alone(loss: str) -> None:
    nets = family(MEMBERS, loss)
    history = train_in_stages(nets, STAGES, label="together")
    last = history[history["step"] == 21].set_index("place")["loss"]
    assert [member.width for member in nets.members] == [2, 4, 4, 7]
    for place, member in enumerate(nets.members):
        weights, value = alone(member, loss, STAGES)
        assert last[place] == pytest.approx(float(value), rel=1e-9)
        for mine, theirs in zip(nets.weights_of(place), weights, strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-9)


def test_descent_in_the_span_of_the_inputs_is_descent() -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = with_bias(torch.randn(4, 30, generator=generator, dtype=torch.float64), BIAS)
    labels = torch.tensor([0, 1, 2, 0])
    member, stage = Member(5, 1e-2), Stage("descent", 0.1, 30)
    weights = draw(MlpShape(3, 5, 30, OUTPUTS), torch.float64, 0)
    whole = PenalisedNets([member], [weights], inputs, labels, bias=BIAS, loss="cross_entropy")
    rotated = Rotated.of(inputs)
    assert rotated.inputs.shape == (4, 4)
    first, outside = rotated.first_layer(weights[0])
    small = PenalisedNets([member], [[first, *weights[1:]]], rotated.inputs, labels, bias=BIAS, loss="cross_entropy")
    losses = [train_in_stages(nets, [stage], label="span")["loss"].to_numpy() for nets in (whole, small)]
    shrunk = outside * (1 - 2 * stage.step * member.penalty) ** (2 * np.arange(stage.steps + 1))
    np.testing.assert_allclose(losses[0], losses[1] + member.penalty * shrunk, rtol=1e-9)
    np.testing.assert_allclose(whole.outputs(inputs).detach(), small.outputs(rotated.inputs).detach(), atol=1e-9)


@pytest.mark.parametrize("stopped_at", [5, 12, 17])
def test_goes_on_where_a_killed_training_was(tmp_path: Path, stopped_at: int) -> None:
    undisturbed = family(MEMBERS)
    expected = train_in_stages(undisturbed, STAGES, label="whole", records=7)
    file = Checkpoint(tmp_path / "progress.npz", "key")
    first = family(MEMBERS)
    from tangentbench.training.engines.full_batch import StagedSession

    session = StagedSession(first, STAGES, "killed", 7)
    for _ in range(stopped_at):
        session.advance()
    session.store(file)
    again = family(MEMBERS)
    history = train_in_stages(again, STAGES, label="again", records=7, checkpoint=file)
    assert history.equals(expected)
    assert all(torch.equal(*pair) for pair in zip(again.parameters, undisturbed.parameters, strict=True))
    finished = train_in_stages(family(MEMBERS), STAGES, label="finished", records=7, checkpoint=file)
    assert finished.equals(expected)


def test_divergence_names_the_network() -> None:
    with pytest.raises(Diverged, match=r"width 7, penalty 0\.01, trial 0"):
        nets = family([Member(7, 1e-2)], "squared_norm")
        train_in_stages(nets, [Stage("descent", 1e6, 40)], label="too fast")
    with pytest.raises(UnknownName, match="full-batch optimiser"):
        Stage("adagrad", 0.1, 1)
