"""Many runs together compute what each network computes alone: outputs, gradients, running moments, and training."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from tangentbench.errors import UnknownName
from tangentbench.networks.deep_architecture import DeepArchitecture
from tangentbench.networks.initialisation import stream
from tangentbench.networks.resnet_runs import FullyConnectedRuns, ModuleRuns, draw_runs
from tangentbench.networks.resnets import FullyConnected, ResNet, build
from tangentbench.training.batches import Examples
from tangentbench.training.checkpoint import Checkpoint
from tangentbench.training.loop import TrainingRecipe, TrainingRuns, train
from tangentbench.training.optimisers import Optimiser

RUNS, BATCH, SHAPE, CLASSES = 3, 12, (3, 8, 8), 4
CASES = [("fc", name) for name in ("batch_norm", "layer_norm", "norm_relu", "selu")] + [
    ("resnet", name) for name in ("batch_norm", "layer_norm", "norm_relu", "fixup")
]


def architecture(kind: Any, normalisation: Any) -> Any:
    depth, width = (3, 6) if kind == "fc" else (8, 2)
    return DeepArchitecture(kind, depth, width, normalisation, SHAPE, CLASSES, fan="fan_in")


def alone(kind: Any, normalisation: Any, run: Any, seed: int = 0) -> Any:
    return build(architecture(kind, normalisation), stream(seed, run).initial_seed())


def batch(runs: Any = RUNS) -> Any:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(runs, BATCH, *SHAPE, generator=generator), torch.arange(BATCH).expand(runs, BATCH) % CLASSES


@pytest.mark.parametrize("runs", [1, RUNS])
@pytest.mark.parametrize(("kind", "normalisation"), CASES)
def test_outputs_gradients_and_moments_are_those_of_each_network(kind: Any, normalisation: Any, runs: Any) -> None:
    nets = draw_runs(architecture(kind, normalisation), range(runs), 0)
    inputs, labels = batch(runs)
    nets.parameters.zero_gradients()
    outputs = nets.outputs(inputs, training=True)
    sum(cross_entropy(own, label) for own, label in zip(outputs, labels, strict=True)).backward()  # type: ignore[union-attr]
    evaluated = nets.outputs(inputs).detach()
    for run in range(runs):
        one = alone(kind, normalisation, run).train()
        expected = one(inputs[run])
        cross_entropy(expected, labels[run]).backward()  # type: ignore[no-untyped-call]
        torch.testing.assert_close(outputs[run], expected, rtol=1e-4, atol=1e-5)
        ours = sum(float(tensor.grad[run].square().sum()) for tensor in nets.parameters.tensors.values())  # type: ignore[index, misc]
        theirs = sum(float(parameter.grad.square().sum()) for parameter in one.parameters())
        assert ours == pytest.approx(theirs, rel=1e-3)
        one.eval()
        torch.testing.assert_close(evaluated[run], one(inputs[run]).detach(), rtol=1e-4, atol=1e-5)
        represented = nets.representations(inputs)[run].detach()
        torch.testing.assert_close(represented, one.representation(inputs[run]).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "normalisation"), [("fc", "batch_norm"), ("resnet", "batch_norm"), ("resnet", "fixup")]
)
def test_fewer_runs_go_on_as_before(kind: Any, normalisation: str) -> None:
    nets = draw_runs(architecture(kind, normalisation), range(RUNS), 0)
    inputs, _ = batch()
    nets.outputs(inputs, training=True)
    before = nets.outputs(inputs).detach()
    nets.keep([2, 0])
    torch.testing.assert_close(nets.outputs(inputs[[2, 0]]).detach(), before[[2, 0]])


def trained(kind: Any, normalisation: Any, runs: Any, epochs: Any, checkpoint: Any = None) -> Any:
    nets = draw_runs(architecture(kind, normalisation), runs, 0)
    inputs, labels = batch(1)
    recipe = TrainingRecipe(epochs, batch_size=5, optimiser=Optimiser("sgd", momentum=0.9))
    examples = Examples(inputs[0], labels[0])
    options = {"evaluate": {"test": examples}, "checkpoint": checkpoint}
    return train(nets, examples, recipe, TrainingRuns(runs, [0.05] * len(runs), 0), label="small", **options)


@pytest.mark.parametrize(("kind", "normalisation"), [("fc", "batch_norm"), ("resnet", "batch_norm")])
def test_a_run_trains_as_if_alone_and_goes_on_where_it_was_stopped(
    kind: Any, normalisation: str, tmp_path: Path
) -> None:
    together = trained(kind, normalisation, [0, 1], 4)
    torch.testing.assert_close(trained(kind, normalisation, [1], 4).last[0], together.last[1], rtol=1e-3, atol=1e-4)
    assert together.history["train_loss"].iloc[-1] < together.history["train_loss"].iloc[0]
    file = Checkpoint(tmp_path / "progress.npz", "same")
    trained(kind, normalisation, [0, 1], 2, file)
    resumed = trained(kind, normalisation, [0, 1], 4, file)
    torch.testing.assert_close(resumed.last, together.last)
    assert resumed.history.equals(together.history)


def test_runs_are_drawn_from_their_own_streams() -> None:
    one, other = (draw_runs(architecture("fc", "selu"), runs, 0) for runs in ([0, 1], [1, 2]))
    assert torch.equal(one.parameters["weight_1"][1], other.parameters["weight_1"][0])
    assert not torch.equal(one.parameters["weight_1"][0], one.parameters["weight_1"][1])


def test_the_architecture_chooses_the_network() -> None:
    assert isinstance(build(architecture("fc", "selu"), 0), FullyConnected)
    assert isinstance(build(architecture("resnet", "selu"), 0), ResNet)
    assert isinstance(draw_runs(architecture("fc", "selu"), [0], 0), FullyConnectedRuns)
    assert isinstance(draw_runs(architecture("resnet", "selu"), [0], 0), ModuleRuns)
    with pytest.raises(UnknownName, match="transformer"):
        DeepArchitecture("transformer", 3, 6, "selu", SHAPE, CLASSES)  # type: ignore[arg-type]
