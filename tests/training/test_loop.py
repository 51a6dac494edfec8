"""The loop trains each run as if it were alone, resumes where it was killed, and says when a loss breaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tangentbench.errors import Diverged
from tangentbench.networks.architecture import fully_connected
from tangentbench.networks.gated import RELU, GatedNets, build
from tangentbench.networks.stack import Stack
from tangentbench.training.batches import Examples
from tangentbench.training.checkpoint import Checkpoint
from tangentbench.training.loop import Probe, Trained, TrainingRecipe, TrainingRuns, train
from tangentbench.training.optimisers import Optimiser, StepDecay

SEED = 3
STEP_SIZES = (0.05, 0.05, 0.2)


def blobs(count: int = 150) -> Examples:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 3
    centres = 3 * torch.randn(3, 5, generator=generator, dtype=torch.float64)
    return Examples(centres[labels] + torch.randn(count, 5, generator=generator, dtype=torch.float64), labels)


def nets_of(runs: list[int]) -> GatedNets:
    return build(fully_connected((5,), 8, 3, 3), RELU, runs, SEED, dtype=torch.float64)


def trained(runs: list[int], recipe: TrainingRecipe, **options: Any) -> Trained:
    sizes = [STEP_SIZES[run] for run in runs]
    examples = blobs()
    options = {"evaluate": {"test": examples}} | options
    return train(nets_of(runs), examples, recipe, TrainingRuns(runs, sizes, SEED), label="blobs", **options)


@pytest.mark.parametrize("optimiser", [Optimiser("sgd", momentum=0.9), Optimiser("adam"), Optimiser("rmsprop")])
def test_runs_trained_together_are_those_trained_alone(optimiser: Optimiser) -> None:
    recipe = TrainingRecipe(epochs=3, batch_size=32, optimiser=optimiser, schedule=StepDecay(every=2))
    together = trained([0, 1, 2], recipe)
    for run in range(3):
        alone = trained([run], recipe)
        torch.testing.assert_close(together.last[run : run + 1], alone.last, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["sgd", "adam", "rmsprop"])
def test_updates_are_the_published_formulas(name: str) -> None:
    recipe = TrainingRecipe(epochs=1, batch_size=150, optimiser=Optimiser(name))
    examples, nets = blobs(), nets_of([0])
    before = {key: tensor.detach()[0].clone() for key, tensor in nets.parameters.tensors.items()}
    leaves = {key: tensor.requires_grad_() for key, tensor in before.items()}
    hidden = examples.inputs
    for layer in (1, 2, 3):
        hidden = hidden @ leaves[f"value_weight_{layer}"] + leaves[f"value_bias_{layer}"]
        hidden = torch.relu(hidden) if layer < 3 else hidden
    torch.nn.functional.cross_entropy(hidden, examples.labels).backward()  # type: ignore[no-untyped-call]
    train(nets, examples, recipe, TrainingRuns([0], [0.01], SEED), label="one step")
    for key, leaf in leaves.items():
        gradient = leaf.grad
        assert gradient is not None
        step = {
            "sgd": 0.01 * gradient,
            # Keras: step * sqrt(1 - b2) / (1 - b1) * m / (sqrt(v) + epsilon), after one step
            "adam": 0.01 * np.sqrt(0.001) / 0.1 * 0.1 * gradient / (np.sqrt(0.001) * gradient.abs() + 1e-7),
            "rmsprop": 0.01 * gradient / (np.sqrt(0.1) * gradient.abs() + 1e-7),
        }[name]
        torch.testing.assert_close(nets.parameters[key][0].detach(), leaf.detach() - step, rtol=1e-9, atol=1e-12)


def test_a_killed_training_goes_on_to_the_same_end(tmp_path: Path) -> None:
    recipe = TrainingRecipe(epochs=4, optimiser=Optimiser("adam"), snapshot_epochs=(2, 4), stop_at_train_accuracy=0.97)
    probe = Probe(
        lambda nets, runs, epoch: [{"run": run, "twice": 2 * epoch} for run in runs], epochs=frozenset({1, 3})
    )
    whole = trained([0, 1, 2], recipe, probes=[probe])
    file = Checkpoint(tmp_path / "progress.npz", identity="blobs", every_seconds=0.0)

    class Killed(Exception):
        pass

    def kill(nets: Any, runs: Any, epoch: int) -> list[dict[str, Any]]:
        raise Killed

    with pytest.raises(Killed):
        trained([0, 1, 2], recipe, probes=[probe, Probe(kill, epochs=frozenset({3}))], checkpoint=file)
    resumed = trained([0, 1, 2], recipe, probes=[probe], checkpoint=file)
    assert torch.equal(resumed.last, whole.last) and torch.equal(resumed.best, whole.best)
    assert torch.equal(resumed.snapshots[2], whole.snapshots[2])
    assert resumed.history.equals(whole.history) and resumed.measured.equals(whole.measured)


def test_a_file_of_another_training_is_ignored(tmp_path: Path) -> None:
    recipe = TrainingRecipe(epochs=1)
    trained([0], recipe, checkpoint=Checkpoint(tmp_path / "p.npz", identity="one"))
    other = trained([0], TrainingRecipe(epochs=2), checkpoint=Checkpoint(tmp_path / "p.npz", identity="two"))
    assert other.history["epoch"].tolist() == [1, 2]
    (tmp_path / "p.npz").write_bytes(b"torn")
    assert len(trained([0], recipe, checkpoint=Checkpoint(tmp_path / "p.npz", identity="one")).history) == 1


def test_a_run_ends_at_its_train_accuracy_and_the_others_go_on() -> None:
    result = trained([0, 1, 2], TrainingRecipe(epochs=12, optimiser=Optimiser("sgd"), stop_at_train_accuracy=0.9))
    ends = result.history.groupby("run")["epoch"].max()
    reached = result.history[result.history["train_accuracy"] >= 0.9].groupby("run")["epoch"].min()
    assert (reached == ends[reached.index]).all() and ends.nunique() > 1
    table = result.accuracies()
    assert (table["best"] >= table["last"]).all() and table["epochs"].tolist() == ends.tolist()


def test_a_loss_that_breaks_is_named_or_ends_its_run() -> None:
    examples, sizes = blobs(), [0.05, 1e200]
    with pytest.raises(Diverged, match=r"step \d+ with blobs, run 1, learning rate 1e\+200"):
        train(nets_of([0, 1]), examples, TrainingRecipe(epochs=2), TrainingRuns([0, 1], sizes, 0), label="blobs")
    recipe = TrainingRecipe(epochs=2, diverging="stop")
    result = train(
        nets_of([0, 1]), examples, recipe, TrainingRuns([0, 1], sizes, 0), label="b", evaluate={"test": examples}
    )
    assert result.accuracies()["last"].tolist()[1] == 0.0 and result.history["run"].tolist() == [0, 1, 0]


def test_augmentation_belongs_to_the_run() -> None:
    def noisy(inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return inputs + torch.randn(inputs.shape, generator=generator, dtype=inputs.dtype)

    recipe = TrainingRecipe(epochs=2, augment=noisy)
    together, alone = trained([0, 1], recipe), trained([1], recipe)
    torch.testing.assert_close(together.last[1:], alone.last, rtol=1e-9, atol=1e-12)
    assert not torch.allclose(alone.last, trained([1], TrainingRecipe(epochs=2)).last)


def test_running_statistics_survive_a_kill(tmp_path: Path) -> None:
    class Counting(GatedNets):
        """Counts its training steps in a buffer, as batch normalisation keeps its means."""

        def __init__(self) -> None:
            super().__init__(fully_connected((5,), 4, 2, 3), RELU, 2, dtype=torch.float64)
            self.buffers = Stack({"steps": (1,)}, 2, tracked=False, dtype=torch.float64)

        def outputs(self, inputs: torch.Tensor, training: bool = False) -> torch.Tensor:
            if training:
                self.buffers["steps"].add_(1)
            return super().outputs(inputs)

    file = Checkpoint(tmp_path / "progress.npz", identity="counting")
    counts = []
    for epochs in (2, 5):
        nets = Counting()
        recipe = TrainingRecipe(epochs=epochs, batch_size=50)
        train(nets, blobs(), recipe, TrainingRuns([0, 1], [0.1, 0.1], 0), label="count", checkpoint=file)
        counts.append(nets.buffers["steps"][:, 0].tolist())
    assert counts == [[6.0, 6.0], [15.0, 15.0]]
