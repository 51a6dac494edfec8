"""The probe of Figure 1 against the definition, and what it sees during training."""

import numpy as np
import pytest
import torch

from tangentbench.networks.deep_architecture import DeepArchitecture
from tangentbench.networks.resnet_runs import draw_runs
from tangentbench.theory.activations import activation
from tangentbench.training.batches import Examples
from tangentbench.training.loop import TrainingRecipe, TrainingRuns, train
from tangentbench.training.representations import dot_product_probe, mean_dot_product


def test_it_is_the_mean_cosine_of_distinct_pairs() -> None:
    vectors = torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(0))
    for absolute in (False, True):
        for own, ours in zip(vectors.double(), mean_dot_product(vectors, absolute), strict=True):
            cosines = [
                float(torch.cosine_similarity(own[i], own[j], dim=0)) for i in range(7) for j in range(7) if i != j
            ]
            expected = np.mean(np.abs(cosines) if absolute else cosines)
            assert float(ours) == pytest.approx(expected, abs=1e-12)


def test_equal_opposite_and_vanishing_representations() -> None:
    one = torch.ones(1, 4, 3)
    assert float(mean_dot_product(one)) == pytest.approx(1.0)
    signs = torch.tensor([1.0, -1.0])[None, :, None] * torch.ones(1, 2, 3)
    assert float(mean_dot_product(signs)) == pytest.approx(-1.0)
    assert float(mean_dot_product(signs, absolute=True)) == pytest.approx(1.0)
    assert float(mean_dot_product(torch.zeros(1, 4, 3))) == 0.0


def test_a_wide_untrained_network_shows_what_the_kernel_says() -> None:
    """Inputs at one common correlation through eight layers of NormReLU."""
    generator = torch.Generator().manual_seed(0)
    common, own = torch.randn(300, generator=generator), torch.randn(40, 300, generator=generator)
    inputs = 0.9**0.5 * common + 0.1**0.5 * own
    depth = 8
    nets = draw_runs(DeepArchitecture("fc", depth, 1500, "norm_relu", (3, 10, 10), 10, fan="fan_in"), [0], 0)
    unit = inputs / inputs.square().mean(dim=1, keepdim=True).sqrt()
    (row,) = dot_product_probe(unit, [0]).measure(nets, [0], 0)
    cosines = (unit @ unit.T / 300).numpy().astype(float)
    rho = cosines[~np.eye(40, dtype=bool)]
    for _ in range(depth):
        rho = activation("norm_relu", c=-1.5975).dual(rho)  # type: ignore[misc]
    assert row["dot_product"] == pytest.approx(float(rho.mean()), abs=0.03)


def test_the_loop_records_it_after_the_epochs_asked_for() -> None:
    inputs = torch.randn(30, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    nets = draw_runs(DeepArchitecture("fc", 2, 5, "norm_relu", (3, 4, 4), 3, fan="fan_in"), [0, 1], 0)
    examples = Examples(inputs, torch.arange(30) % 3)
    probe = dot_product_probe(inputs, [0, 2])
    recipe = TrainingRecipe(3, batch_size=10)
    found = train(nets, examples, recipe, TrainingRuns([0, 1], [0.1] * 2, 0), label="probe", probes=[probe])
    assert found.measured[["epoch", "run"]].to_numpy().tolist() == [[0, 0], [0, 1], [2, 0], [2, 1]]
    by_epoch = found.measured.pivot(index="epoch", columns="run", values="dot_product")
    assert (by_epoch.loc[0] != by_epoch.loc[2]).all()
