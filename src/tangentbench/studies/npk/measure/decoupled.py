"""Figure 3 (right): the tangent kernels of the values and of the features while both are learnt (DNPFL)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from torch import Tensor

from tangentbench.kernels.finite import gated_ntk
from tangentbench.networks.gated import GatedNets, build, decoupled
from tangentbench.studies.npk.measure.digits import train_measured
from tangentbench.studies.npk.measure.images import some_images, split
from tangentbench.studies.npk.settings import DecoupledKernels
from tangentbench.studies.registry import Context, study
from tangentbench.training.loop import Probe

_KERNELS = {"K^V": ("value_",), "K^F": ("feature_",)}


@study("npk_fig3c")
def value_and_feature_kernels(context: Context, settings: DecoupledKernels) -> pd.DataFrame:
    """`trace` and `Frobenius norm` of each `kernel` at each measured `epoch`; every run has its `seed`.

    `trace apart` and `Frobenius norm apart` are |log10(K^F / K^V)|: 1 is a factor of ten. `test accuracy` in percent.
    """
    dataset = context.dataset
    pictures, _ = some_images(dataset, settings.kernel_images_per_class, context.seed)
    probe = Probe(
        _KernelSizes(pictures, settings.outputs),
        epochs=frozenset(range(0, settings.training.epochs + 1, settings.probe_every_epochs)),
    )
    architecture = settings.network.architecture(dataset.input_shape, len(dataset.classes))
    gating = decoupled(settings.soft_gate.beta, settings.soft_gate.height)
    result = train_measured(
        context,
        settings,
        build(architecture, gating, range(settings.training.runs), context.seed),
        split(dataset, settings.train_images, None, context.seed),
        probe,
        label="decoupled learning",
        checkpoint="fig3c",
    )
    accuracy = result.history.assign(value=100 * result.history["test_accuracy"], quantity="test accuracy")
    table = pd.concat([result.measured, accuracy[["epoch", "run", "quantity", "value"]]], ignore_index=True)
    return table.rename(columns={"run": "seed"}).sort_values(["quantity", "seed", "epoch"], kind="stable")


@dataclass(frozen=True, eq=False)
class _KernelSizes:
    """A probe: the sizes of both kernels on `pictures`, and how far apart they are."""

    pictures: Tensor
    outputs: str

    def __call__(self, nets: GatedNets, active: Sequence[int], epoch: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for slot, run in enumerate(active):
            kernels = {
                name: gated_ntk(nets, slot, self.pictures, of, outputs=self.outputs) for name, of in _KERNELS.items()
            }
            sizes = {
                "trace": {name: float(kernel.trace()) for name, kernel in kernels.items()},
                "Frobenius norm": {name: float(kernel.norm()) for name, kernel in kernels.items()},
            }
            for quantity, size in sizes.items():
                rows += [{"run": run, "quantity": quantity, "kernel": name, "value": size[name]} for name in kernels]
                apart = abs(math.log10(size["K^F"] / size["K^V"]))
                rows.append({"run": run, "quantity": f"{quantity} apart", "value": apart})
        return rows
