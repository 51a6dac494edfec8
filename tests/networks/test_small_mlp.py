"""Networks trained together: the same numbers as one by one with autograd and torch's own optimiser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tangentbench.errors import UnknownName
from tangentbench.networks.small_mlp import ShallowNets, Span, bytes_per_network, draw
from tangentbench.networks.weight_distributions import DISTRIBUTIONS
from tangentbench.training.engines.ensembles import EnsembleSchedule, losses_of, train

CLASSES = 3
INPUTS = torch.rand(4, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.tensor([0, 2, 1, 2])


def never(epoch: int) -> torch.Tensor:
    raise AssertionError("one batch needs no order")


def nets_of(span: Any, layers: Any, parametrisation: str = "maximal_update", runs: int = 3, width: int = 5) -> Any:
    distribution = DISTRIBUTIONS["gaussian"]
    return draw(
        span,
        span.shape(width, layers, CLASSES),
        runs,
        distribution,
        distribution,
        parametrisation,
        torch.Generator().manual_seed(1),
    )


def plain_losses(nets: Any, run: Any, inputs: Any, epochs: Any, step: Any, momentum: Any, batches: Any) -> Any:
    """The same network written down again, with autograd and torch.optim.SGD; losses after each epoch."""
    middle = [] if nets.middle is None else [nets.middle[run].clone()]
    weights = [nets.first[run].clone(), *middle, nets.last[run].clone()]
    for one in weights:
        one.requires_grad_()
    optimiser = torch.optim.SGD(weights, lr=step * nets.rate_scale, momentum=momentum)

    def loss(chosen: Any) -> Any:
        hidden = torch.relu(inputs[chosen] @ weights[0])
        if middle:
            hidden = torch.relu(hidden @ weights[1] / nets.width**0.5)
        outputs = nets.output_scale * hidden @ weights[-1].T
        return torch.nn.functional.cross_entropy(outputs, LABELS[chosen])

    after = []
    for epoch in range(epochs):
        for chosen in batches(epoch + 1):
            optimiser.zero_grad()
            loss(chosen).backward()
            optimiser.step()
        after.append(loss(torch.arange(len(inputs))).item())
    return after, weights[-1].norm().item() / nets.width**0.5


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("parametrisation", ["maximal_update", "ntk"])
def test_training_together_is_training_one_by_one(layers: int, parametrisation: str) -> None:
    span = Span.of(INPUTS)
    nets = nets_of(span, layers, parametrisation)
    alone = [plain_losses(nets, run, span.inputs, 6, 0.4, 0.9, lambda epoch: [torch.arange(4)]) for run in range(3)]
    together = train(nets, span, LABELS, CLASSES, EnsembleSchedule((1, 3, 6), 100, 0.4, 0.9), never)
    for run, (losses, norm) in enumerate(alone):
        np.testing.assert_allclose(together["train_loss"][:, run], [losses[0], losses[2], losses[5]], rtol=1e-10)
        assert together["readout_norm"][-1, run] == pytest.approx(norm, rel=1e-10)


def test_batches_follow_the_order_of_the_epoch() -> None:
    span = Span.of(INPUTS)
    nets = nets_of(span, 2)

    def order(epoch: Any) -> Any:
        return torch.randperm(4, generator=torch.Generator().manual_seed(epoch))

    losses, _ = plain_losses(nets, 1, span.inputs, 3, 0.2, 0.9, lambda epoch: order(epoch).split(3))
    together = train(nets, span, LABELS, CLASSES, EnsembleSchedule((2, 3), 3, 0.2, 0.9), order)
    np.testing.assert_allclose(together["train_loss"][:, 1], losses[1:], rtol=1e-10)


def test_span_gives_the_losses_of_all_coordinates() -> None:
    """Weights outside the images' span never change and never matter."""
    span = Span.of(INPUTS)
    assert span.inputs.shape == (4, 4)
    whole = Span(INPUTS / 7**0.5, torch.eye(7, dtype=torch.float64))
    full = nets_of(whole, 1)
    reduced = ShallowNets(torch.matmul(span.basis.T, full.first), None, full.last.clone(), full.output_scale, 5.0)
    schedule = EnsembleSchedule((1, 5), 100, 0.5, 0.9)
    first = train(full, whole, LABELS, CLASSES, schedule, never)
    second = train(reduced, span, LABELS, CLASSES, schedule, never)
    np.testing.assert_allclose(first["train_loss"], second["train_loss"], rtol=1e-10)


def test_many_inputs_keep_their_coordinates() -> None:
    many = torch.rand(9, 4)
    span = Span.of(many)
    torch.testing.assert_close(span.inputs, many / 2)
    assert torch.equal(span.basis, torch.eye(4))


def test_matrix_and_other_weights_have_their_own_distributions() -> None:
    span = Span.of(INPUTS.float())
    nets = draw(
        span, span.shape(200, 2, CLASSES), 1, DISTRIBUTIONS["uniform"], DISTRIBUTIONS["exponential"], "ntk",
        torch.Generator().manual_seed(0),
    )  # fmt: skip
    assert nets.middle.abs().max() <= 3**0.5  # type: ignore[union-attr]
    assert nets.last.min() >= -1
    assert nets.last.max() > 3


def test_scale_of_outputs_at_the_start_tells_the_parametrisations_apart() -> None:
    span = Span.of(INPUTS)
    spreads = {}
    for name in ("maximal_update", "ntk"):
        spreads[name] = [float(nets_of(span, 1, name, 200, width).outputs(span.inputs).std()) for width in (16, 256)]
    assert spreads["ntk"][1] == pytest.approx(spreads["ntk"][0], rel=0.15)
    assert spreads["maximal_update"][1] == pytest.approx(spreads["maximal_update"][0] / 4, rel=0.15)


def test_loss_is_torchs() -> None:
    span = Span.of(INPUTS)
    nets = nets_of(span, 2)
    expected = torch.nn.functional.cross_entropy(nets.outputs(span.inputs)[2], LABELS)
    assert losses_of(nets, span.inputs, LABELS)[2] == pytest.approx(float(expected))


def test_bytes_count_weights_and_momenta() -> None:
    span = Span.of(INPUTS.float())
    distribution = DISTRIBUTIONS["gaussian"]
    nets = draw(span, span.shape(6, 2, CLASSES), 2, distribution, distribution, "ntk", torch.Generator().manual_seed(0))
    held = sum(one.nbytes for one in [*nets.weights, *nets.momenta])
    assert held == 2 * bytes_per_network(span.shape(6, 2, CLASSES))


def test_bad_requests_are_named() -> None:
    span, distribution, generator = Span.of(INPUTS), DISTRIBUTIONS["gaussian"], torch.Generator()
    with pytest.raises(UnknownName, match="parametrisation 'mean_field'"):
        draw(span, span.shape(4, 1, 3), 1, distribution, distribution, "mean_field", generator)
    with pytest.raises(ValueError, match="one or two hidden layers"):
        draw(span, span.shape(4, 3, 3), 1, distribution, distribution, "ntk", generator)
