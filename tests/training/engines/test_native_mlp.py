"""Compiled blocks of steps compute what autograd and torch's optimisers do, to rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tangentbench.errors import Diverged, TangentbenchError
from tangentbench.networks.architecture import convolutional, fully_connected
from tangentbench.networks.gated import FROZEN, RELU, GatedNets, Gating, build, decoupled
from tangentbench.training.batches import Examples
from tangentbench.training.engines import native_mlp as compiled
from tangentbench.training.loop import Probe, Trained, TrainingRecipe, TrainingRuns, train
from tangentbench.training.optimisers import Optimiser, StepDecay

pytestmark = pytest.mark.skipif(not compiled.instruction_sets(), reason="the compiled training core was not built")
GATINGS: dict[str, Any] = {
    "relu": RELU,
    "frozen": FROZEN,
    "frozen soft": Gating(features="frozen", soft=True, beta=3.0, height=2.0),
    "decoupled": decoupled(4.0, 1.5),
    "padded": Gating(features="trained", soft=True, beta=2.0, padding=3),
}
OPTIMISERS = [
    Optimiser("sgd"),
    Optimiser("sgd", momentum=0.9, weight_decay=0.01),
    Optimiser("adam"),
    Optimiser("adam", weight_decay=0.02),
]
STEP_SIZES = [0.05, 0.05, 0.2]


def examples(loss: str = "cross_entropy", *, zeros: float = 0.0, outputs: int = 3, count: int = 83) -> Examples:
    """Random inputs of seven numbers, the last of them always zero where others are."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(count, 7, generator=generator, dtype=torch.float64)
    inputs *= torch.rand(count, 7, generator=generator) >= zeros
    if zeros:
        inputs[:, -1] = 0.0
        inputs[0] = 0.0
    if loss == "cross_entropy":
        return Examples(inputs, torch.randint(0, outputs, (count,), generator=generator))
    return Examples(inputs, torch.randn(count, outputs, generator=generator, dtype=torch.float64))


def trained(
    backend: str,
    data: Examples,
    gating: Gating,
    optimiser: Optimiser,
    loss: str = "cross_entropy",
    outputs: int = 3,
    **more: Any,
) -> tuple[Trained, GatedNets]:
    architecture = fully_connected((7,), 9, 4, outputs, biases=bool(more.pop("biases", True)))
    nets = build(architecture, gating, [0, 1, 2], seed=5, dtype=torch.float64)
    recipe = TrainingRecipe(
        epochs=3, batch_size=8, loss=loss, optimiser=optimiser, schedule=StepDecay(every=2), backend=backend
    )
    result = train(
        nets,
        data,
        recipe,
        TrainingRuns([0, 1, 2], STEP_SIZES, 5),
        label="race",
        evaluate={"test": data},
        **more,
    )
    return result, nets


def agree(ours: Trained, theirs: Trained) -> None:
    torch.testing.assert_close(ours.last, theirs.last, rtol=1e-8, atol=1e-11)
    numbers = ["train_loss", "train_accuracy", "test_accuracy"]
    np.testing.assert_allclose(ours.history[numbers], theirs.history[numbers], rtol=1e-8)


@pytest.mark.parametrize("zeros", [0.0, 0.8], ids=["dense", "sparse"])
@pytest.mark.parametrize("gating", GATINGS.values(), ids=GATINGS)
def test_every_gating_trains_as_with_autograd(gating: Gating, zeros: float) -> None:
    data = examples(zeros=zeros)
    for optimiser in (OPTIMISERS[0], OPTIMISERS[2]):
        agree(trained("native", data, gating, optimiser)[0], trained("torch", data, gating, optimiser)[0])


@pytest.mark.parametrize("zeros", [0.0, 0.8], ids=["dense", "sparse"])
@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=repr)
def test_every_update_is_torchs(optimiser: Optimiser, zeros: float) -> None:
    data = examples(zeros=zeros)
    agree(trained("native", data, RELU, optimiser)[0], trained("torch", data, RELU, optimiser)[0])


@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize("biases", [True, False])
def test_squared_loss_and_networks_without_biases(outputs: int, biases: bool) -> None:
    data = examples("squared", outputs=outputs)
    pair = [
        trained(backend, data, RELU, OPTIMISERS[0], "squared", outputs, biases=biases)[0]
        for backend in ("native", "torch")
    ]
    agree(*pair)


@pytest.mark.parametrize("name", compiled.instruction_sets())
def test_every_instruction_set_agrees(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.INSTRUCTION_SET_VARIABLE, name)
    data = examples(zeros=0.8)
    for optimiser in OPTIMISERS[::2]:
        agree(
            trained("native", data, GATINGS["decoupled"], optimiser)[0],
            trained("torch", data, GATINGS["decoupled"], optimiser)[0],
        )


@pytest.mark.parametrize("name", compiled.instruction_sets())
def test_single_precision_is_the_double_one_rounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.INSTRUCTION_SET_VARIABLE, name)
    data = examples(zeros=0.7)
    single = Examples(data.inputs.float(), data.labels)
    architecture = fully_connected((7,), 20, 3, 3)
    losses = []
    for own, dtype in ((single, torch.float32), (data, torch.float64)):
        nets = build(architecture, GATINGS["decoupled"], [0], seed=1, dtype=dtype)
        recipe = TrainingRecipe(epochs=1, batch_size=8, optimiser=Optimiser("adam"), backend="native")
        result = train(nets, own, recipe, TrainingRuns([0], [0.001], 1), label="single")
        losses.append(result.history["train_loss"][0])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_run_does_not_depend_on_its_neighbours_or_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    data = examples(zeros=0.8)
    together = trained("native", data, RELU, OPTIMISERS[2])[0]
    architecture = fully_connected((7,), 9, 4, 3)
    recipe = TrainingRecipe(
        epochs=3, batch_size=8, optimiser=OPTIMISERS[2], schedule=StepDecay(every=2), backend="native"
    )
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    nets = build(architecture, RELU, [2], seed=5, dtype=torch.float64)
    alone = train(nets, data, recipe, TrainingRuns([2], STEP_SIZES[2:], 5), label="alone")
    assert torch.equal(alone.last[0], together.last[2])
    assert torch.equal(trained("native", data, RELU, OPTIMISERS[2])[0].last, together.last)


def test_probes_at_steps_see_the_networks_of_that_step() -> None:
    seen: dict[str, list[tuple[int, float]]] = {}
    for backend in ("native", "torch"):
        found = seen.setdefault(backend, [])

        def measure(
            nets: GatedNets, runs: Any, step: int, found: list[tuple[int, float]] = found
        ) -> list[dict[str, Any]]:
            found.append((step, float(nets.parameters["value_weight_2"].detach().square().sum())))
            return []

        probe = Probe(measure, steps=frozenset({1, 4, 11, 23}))
        trained(backend, examples(), RELU, OPTIMISERS[2], probes=[probe])
    assert [step for step, _ in seen["native"]] == [1, 4, 11, 23]
    np.testing.assert_allclose(seen["native"], seen["torch"], rtol=1e-9)


def test_a_broken_loss_is_named_at_its_step() -> None:
    nets = build(fully_connected((7,), 9, 4, 3), RELU, [0, 1], seed=5, dtype=torch.float64)
    texts = []
    for backend in ("native", "torch"):
        nets = build(fully_connected((7,), 9, 4, 3), RELU, [0, 1], seed=5, dtype=torch.float64)
        recipe = TrainingRecipe(epochs=2, batch_size=8, backend=backend)
        with pytest.raises(Diverged) as error:
            train(nets, examples(), recipe, TrainingRuns([0, 1], [0.05, 1e200], 5), label="big")
        texts.append(str(error.value))
    assert texts[0] == texts[1]


def test_what_is_not_known_goes_to_autograd_and_may_be_refused(tmp_path: Path) -> None:
    data = examples()
    images = Examples(torch.rand(20, 4, 4, 1, dtype=torch.float64), data.labels[:20])
    nets = build(convolutional((4, 4, 1), [2], [3], 3, pooled=False), RELU, [0], seed=0, dtype=torch.float64)
    runs = TrainingRuns([0], [0.1], 0)
    assert len(train(nets, images, TrainingRecipe(epochs=1), runs, label="convolutions").history) == 1
    with pytest.raises(TangentbenchError, match="convolutions: compiled training steps do not know"):
        train(nets, images, TrainingRecipe(epochs=1, backend="native"), runs, label="convolutions")
    with pytest.raises(TangentbenchError, match="backend of training"):
        TrainingRecipe(epochs=1, backend="fast")
