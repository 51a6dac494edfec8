"""Figure 3 (right): the tangent kernels of the values and of the features while both are learnt (DNPFL)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tangentbench.kernels.empirical import gated_ntk
from tangentbench.networks.architecture import fully_connected
from tangentbench.networks.gated import GatedNets, build, decoupled
from tangentbench.studies.npk.measure.images import some_images, split
from tangentbench.studies.registry import Context, study
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.loop import Probe, TrainingRecipe, TrainingRuns, train
from tangentbench.training.optimisers import Optimiser

KERNELS = {"K^V": ("value_",), "K^F": ("feature_",)}


@study("npk_fig3c")
def value_and_feature_kernels(
    context: Context,
    *,
    width: int,
    depth: int,
    soft_gate_beta: float,
    soft_gate_height: float,
    optimiser: str,
    step: float,
    batch_size: int,
    kernel_images_a_class: int,
    outputs: str,
    train_images: int,
    runs: int,
    epochs: int,
    probe_every_epochs: int,
) -> pd.DataFrame:
    """`trace` and `Frobenius norm` of each `kernel` at each measured `epoch`; a run a `seed`.

    `trace apart` and `Frobenius norm apart` are |log10(K^F / K^V)|: 1 is a factor of ten. `test accuracy` in percent.
    """
    dataset = context.dataset
    examples, test = split(dataset, train_images, None, context.seed)
    pictures, _ = some_images(dataset, kernel_images_a_class, context.seed)

    def measure(nets: GatedNets, active: Sequence[int], epoch: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for slot, run in enumerate(active):
            kernels = {name: gated_ntk(nets, slot, pictures, of, outputs=outputs) for name, of in KERNELS.items()}
            sizes = {
                "trace": {name: float(kernel.trace()) for name, kernel in kernels.items()},
                "Frobenius norm": {name: float(kernel.norm()) for name, kernel in kernels.items()},
            }
            for quantity, size in sizes.items():
                rows += [{"run": run, "quantity": quantity, "kernel": name, "value": size[name]} for name in kernels]
                apart = abs(math.log10(size["K^F"] / size["K^V"]))
                rows.append({"run": run, "quantity": f"{quantity} apart", "value": apart})
        return rows

    architecture = fully_connected(dataset.input_shape, width, depth, len(dataset.classes))
    numbers = list(range(runs))
    result = train(
        build(architecture, decoupled(soft_gate_beta, soft_gate_height), numbers, context.seed),
        examples,
        TrainingRecipe(epochs, batch_size, optimiser=Optimiser(optimiser)),
        TrainingRuns(numbers, [step] * runs, context.seed),
        label=f"decoupled learning, {optimiser} step {step:g}",
        evaluate={"test": test},
        probes=[Probe(measure, epochs=frozenset(range(0, epochs + 1, probe_every_epochs)))],
        checkpoint=checkpoint_in(
            context.work,
            "fig3c",
            *(context.seed, width, depth, soft_gate_beta, soft_gate_height, step, runs, train_images),
        ),
    )
    accuracy = result.history.assign(value=100 * result.history["test_accuracy"], quantity="test accuracy")
    table = pd.concat([result.measured, accuracy[["epoch", "run", "quantity", "value"]]], ignore_index=True)
    return table.rename(columns={"run": "seed"}).sort_values(["quantity", "seed", "epoch"], kind="stable")
