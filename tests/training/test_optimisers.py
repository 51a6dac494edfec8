"""The table of optimisers: one row names torch's update and the compiled core's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tangentbench.errors import UnknownName
from tangentbench.training.engines.full_batch import FULL_BATCH_OPTIMISERS
from tangentbench.training.optimisers import OPTIMISERS, Optimiser, torch_optimiser

NATIVE_SOURCES = Path(__file__).parents[2] / "src/native/training"


def test_native_updates_have_the_numbers_of_the_compiled_core() -> None:
    text = "".join(header.read_text() for header in NATIVE_SOURCES.glob("*.hpp"))
    found = re.search(r"enum Rule\s*\{([^}]*)\}", text)
    assert found is not None
    known = {name: int(number) for name, number in re.findall(r"(\w+)\s*=\s*(\d+)", found[1])}
    table = [rule for row in OPTIMISERS.values() for rule in (row.native, row.native_with_momentum) if rule]
    assert {rule.name: rule.number for rule in table} == known


def test_momentum_chooses_the_update_that_has_it() -> None:
    plain, heavy = Optimiser("sgd").native, Optimiser("sgd", momentum=0.9).native
    assert plain is not None and plain.moments == ()
    assert heavy is not None and heavy.moments == ("momentum_buffer",)
    assert Optimiser("adam", momentum=0.9).native == Optimiser("adam").native
    assert Optimiser("rmsprop").native is None


@pytest.mark.parametrize("name", FULL_BATCH_OPTIMISERS.values())
def test_full_batch_steps_are_those_of_torch(name: str) -> None:
    ours, theirs = (torch.linspace(-1, 1, 5, requires_grad=True) for _ in range(2))
    own = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[name]
    for parameter, optimiser in (
        (ours, torch_optimiser(name, [ours], 0.1)),
        (theirs, own([theirs], lr=0.1, fused=True)),
    ):
        for _ in range(3):
            optimiser.zero_grad()
            parameter.pow(4).sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    assert torch.equal(ours, theirs)


def test_unknown_optimisers_are_named() -> None:
    with pytest.raises(UnknownName, match="adagrad"):
        Optimiser("adagrad")
