"""Crops and flips: every result is a window of the padded image or its mirror image; the generator decides which."""

from collections.abc import Iterator
from typing import Any

import torch

from tangentbench.training.batches import PADDING, Batches, Examples, crop_and_flip

SIDE, COUNT = 6, 200


def images() -> Any:
    return torch.rand(COUNT, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)) + 0.1


def windows(image: Any) -> Iterator[Any]:
    """All crops of one padded image and their mirror images."""
    padded = torch.zeros(3, SIDE + 2 * PADDING, SIDE + 2 * PADDING)
    padded[:, PADDING : PADDING + SIDE, PADDING : PADDING + SIDE] = image
    for row in range(2 * PADDING + 1):
        for column in range(2 * PADDING + 1):
            crop = padded[:, row : row + SIDE, column : column + SIDE]
            yield crop
            yield crop.flip(2)


def test_each_image_becomes_one_of_its_windows() -> None:
    originals = images()[:10]
    changed = crop_and_flip(originals, torch.Generator().manual_seed(1))
    for image, one in zip(originals, changed, strict=True):
        assert any(torch.equal(one, window) for window in windows(image))


def test_all_moves_and_mirrors_occur() -> None:
    original = images()[:1]
    possible = list(windows(original[0]))
    changed = crop_and_flip(original.expand(3000, -1, -1, -1), torch.Generator().manual_seed(2))
    flat = torch.stack(possible).flatten(1)
    seen = {int((flat == one.flatten()).all(dim=1).nonzero()[0, 0]) for one in changed}
    assert len(seen) == len({tuple(row.tolist()) for row in flat})


def test_batches_are_the_same_for_one_seed_run_and_epoch_and_differ_otherwise() -> None:
    batches = Batches(Examples(images(), torch.zeros(COUNT, dtype=torch.long)), 50, crop_and_flip)

    def first(runs: Any, seed: Any, epoch: Any) -> Any:
        return next(iter(batches.of_epoch(runs, seed, epoch)))[0].clone()

    both = first([0, 1], 0, 1)
    assert torch.equal(first([1], 0, 1)[0], both[1])
    assert torch.equal(first([0, 1], 0, 1), both)
    assert not torch.equal(first([0, 1], 0, 2), both) and not torch.equal(first([0, 1], 1, 1), both)
