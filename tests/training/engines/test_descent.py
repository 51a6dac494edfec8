"""Gradient descent of a batch: what is recorded, when it stops, how it resumes and fails."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tangentbench.errors import Diverged
from tangentbench.networks.architecture import MemorisationSpec
from tangentbench.networks.memorisation import MemorisationNets, draw
from tangentbench.training.checkpoint import Checkpoint
from tangentbench.training.engines.descent import descend, log_spaced_steps

ARCHITECTURE = MemorisationSpec(width=8, depth=3, examples=6, gate_probability=0.5, weight_scale=0.5)
STEPS = [0, 1, 5, 20, 60]
STEP_SIZES = torch.tensor([0.05, 0.02], dtype=torch.float64)


def fresh() -> MemorisationNets:
    return draw(ARCHITECTURE, range(2), 0, torch.float64)


def checkpoint(folder: Path, key: str = "this training") -> Checkpoint:
    return Checkpoint(folder / "training.npz", key, every_seconds=0.0)


def interrupt_after(steps: int) -> Any:
    def stop(done: int) -> None:
        if done >= steps:
            raise KeyboardInterrupt

    return stop


def test_records_are_the_squared_errors_before_each_step() -> None:
    nets, recorded = fresh(), []
    for step in range(STEPS[-1] + 1):
        squared = nets.descend(STEP_SIZES).square().sum(dim=1)
        if step in STEPS:
            recorded.append(squared.numpy())
    np.testing.assert_array_equal(descend(fresh(), STEP_SIZES, STEPS, label="test"), recorded)


def test_resumed_training_gives_the_same_numbers(tmp_path: Path) -> None:
    whole = descend(fresh(), STEP_SIZES, STEPS, label="test")
    with pytest.raises(KeyboardInterrupt):
        descend(fresh(), STEP_SIZES, STEPS, label="test", checkpoint=checkpoint(tmp_path), on_step=interrupt_after(31))
    done: list[int] = []
    resumed = descend(fresh(), STEP_SIZES, STEPS, label="test", checkpoint=checkpoint(tmp_path), on_step=done.append)
    assert done[0] == 30, "it must go on where it stopped, not start again"
    np.testing.assert_array_equal(resumed, whole)


def test_finished_training_is_not_repeated(tmp_path: Path) -> None:
    first = descend(fresh(), STEP_SIZES, STEPS, label="test", checkpoint=checkpoint(tmp_path))
    done: list[int] = []
    again = descend(fresh(), STEP_SIZES, STEPS, label="test", checkpoint=checkpoint(tmp_path), on_step=done.append)
    assert done == [STEPS[-1] + 1]
    np.testing.assert_array_equal(first, again)


def test_checkpoint_of_another_training_is_ignored(tmp_path: Path) -> None:
    descend(fresh(), 0.5 * STEP_SIZES, STEPS, label="test", checkpoint=checkpoint(tmp_path, "another"))
    ours = descend(fresh(), STEP_SIZES, STEPS, label="test", checkpoint=checkpoint(tmp_path))
    np.testing.assert_array_equal(ours, descend(fresh(), STEP_SIZES, STEPS, label="test"))


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 cut short", b"not an archive"])
def test_damaged_checkpoint_is_ignored(tmp_path: Path, damage: bytes) -> None:
    checkpoint(tmp_path).path.write_bytes(damage)
    assert checkpoint(tmp_path).load() is None


def test_training_stops_when_every_run_is_below_the_ratio() -> None:
    whole = descend(fresh(), STEP_SIZES, STEPS, label="test")
    slowest = (whole / whole[0]).max(axis=1)
    stopped = descend(fresh(), STEP_SIZES, STEPS, label="test", stop_below=float(slowest[3]))
    np.testing.assert_array_equal(stopped[:4], whole[:4])
    assert np.isnan(stopped[4:]).all()


def test_divergence_names_step_and_setting() -> None:
    with pytest.raises(Diverged, match=r"at step \d+ with width 8 \(run 1 of the batch\)"):
        descend(fresh(), torch.tensor([0.01, 1e6], dtype=torch.float64), [0, 500], label="width 8")


def test_log_spaced_steps_have_both_ends_and_no_repeats() -> None:
    steps = log_spaced_steps(2000, 80)
    assert steps[0] == 0 and steps[-1] == 2000 and len(steps) <= 80
    assert steps == sorted(set(steps))
