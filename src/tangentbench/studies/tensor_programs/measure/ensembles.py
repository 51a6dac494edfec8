"""Figures A.4 to A.7: how far apart the laws' distributions of a trained network's scalars lie, against the width."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from tangentbench.datasets import Dataset
from tangentbench.device import CPU
from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.networks.initialisation import stream
from tangentbench.networks.small_mlp import ShallowNets, Span, bytes_a_network, draw, joined
from tangentbench.networks.weight_distributions import GAUSSIAN, coupled
from tangentbench.studies.registry import Context, study
from tangentbench.studies.tensor_programs.measure.swapping import ALL, chunks, kept, laws_of, named_stream
from tangentbench.theory.transport import disjoint_parts, gap_along_the_others, wasserstein
from tangentbench.training.engines.ensembles import Schedule, train

BATCH_BYTES = 4 * 2**20
"""Weights and momenta of networks that are drawn and train together: as many as the processor's cache holds."""
DEVICE_BATCH_BYTES = 128 * 2**20
"""On another device so many of those batches train together that they take this much."""
AGAIN = "gaussian_again"
"""A second, independent Gaussian ensemble: what the distance is where there is no difference."""
QUANTITIES = ("train_loss", "readout_norm")
FRACTIONS = {1: "N", 2: "N/2", 4: "N/4"}
ORDER_STREAM = 11


@dataclass(frozen=True)
class Ensemble:
    """Networks that differ in their random start only."""

    law: str
    swapped: str
    width: int
    runs: int
    coupled: bool = False
    """Whether all laws take their weights from one stream of uniform numbers."""

    @property
    def label(self) -> str:
        return f"{self.law}-{self.swapped}-{self.width}{'-coupled' * self.coupled}"


@dataclass(frozen=True)
class Task:
    """What all networks of a figure learn, and how."""

    span: Span
    labels: Tensor
    classes: int
    hidden_layers: int
    parametrisation: str
    schedule: Schedule

    def measure(self, context: Context, ensemble: Ensemble) -> dict[str, np.ndarray]:
        """Each quantity after the epochs shown, (epochs, runs)."""
        law = GAUSSIAN if ensemble.law == AGAIN else ensemble.law
        matrices, vectors = laws_of(law, ensemble.swapped)
        name = f"{ensemble.law} {ensemble.swapped}"
        if ensemble.coupled:
            matrices, vectors, name = coupled(matrices), coupled(vectors), "coupled"
        size = bytes_a_network(self.span, self.classes, ensemble.width, self.hidden_layers)
        count = len(self.span.inputs)

        def order(epoch: int) -> Tensor:
            return torch.randperm(count, generator=stream(context.seed, ORDER_STREAM, epoch))

        def drawn(part: range) -> ShallowNets:
            generator = named_stream(name, context.seed, ensemble.width, self.hidden_layers, part.start)
            return draw(
                self.span, self.classes, ensemble.width, self.hidden_layers, len(part), matrices, vectors,
                self.parametrisation, generator,
            )  # fmt: skip

        def make() -> dict[str, Tensor]:
            batches = list(chunks(ensemble.runs, size, BATCH_BYTES))
            on_cpu = context.device.type == CPU
            together = 1 if on_cpu else max(1, DEVICE_BATCH_BYTES // max(size, BATCH_BYTES))
            parts = []
            for start in range(0, len(batches), together):
                nets = joined([drawn(part) for part in batches[start : start + together]])
                parts.append(train(nets, self.span, self.labels, self.classes, self.schedule, order))
            measured = {name: np.concatenate([part[name] for part in parts], axis=1) for name in QUANTITIES}
            if not all(np.isfinite(values).all() for values in measured.values()):
                raise TangentbenchError(
                    f"a network of {ensemble.label} diverged with step {self.schedule.step:g}: lower the step"
                )
            return {name: torch.from_numpy(values) for name, values in measured.items()}

        key = repr((context.seed, ensemble, self.schedule, self.parametrisation, count, float(self.span.inputs.sum())))
        return {name: values.numpy() for name, values in kept(context.work, ensemble.label, key, make).items()}


def make_task(
    dataset: Dataset,
    *,
    images: int,
    hidden_layers: int,
    parametrisation: str,
    activation: str,
    step: float,
    momentum: float,
    batch_size_max: int,
    epochs_shown: Sequence[int],
) -> Task:
    """The first `images` of the training set as flat vectors of their pixels."""
    if activation != "relu":
        raise UnknownName("activation", activation, ["relu"])
    pictures = torch.from_numpy(dataset.x_train[:images].reshape(images, -1))
    return Task(
        span=Span.of(pictures),
        labels=torch.from_numpy(np.asarray(dataset.y_train[:images])),
        classes=len(dataset.classes),
        hidden_layers=hidden_layers,
        parametrisation=parametrisation,
        schedule=Schedule(tuple(sorted(epochs_shown)), min(images, batch_size_max), step, momentum),
    )


@study("tensor_programs_figA_4")
def one_hidden_layer(
    context: Context,
    *,
    laws: Sequence[str],
    widths: Sequence[int],
    inits: int,
    limit_width: int,
    limit_runs: int,
    quantities: Sequence[str],
    images: int,
    parametrisation: str,
    activation: str,
    step: float,
    momentum: float,
    batch_size_max: int,
    epochs_shown: Sequence[int],
) -> pd.DataFrame:
    """Rows of `distance_rows` for each width, and of `limit_rows` from a few very wide networks."""
    task = make_task(
        context.dataset, images=images, hidden_layers=1, parametrisation=parametrisation, activation=activation,
        step=step, momentum=momentum, batch_size_max=batch_size_max, epochs_shown=epochs_shown,
    )  # fmt: skip
    cases = [(law, ALL) for law in laws]
    frames = [frame for width in widths for frame in distance_rows(context, task, cases, width, inits, quantities)]
    frames += limit_rows(context, task, cases, limit_width, limit_runs, quantities)
    return tidy(frames)


@study("tensor_programs_figA_5")
def readout_norms(context: Context, *, quantities: Sequence[str]) -> pd.DataFrame:
    """Figure A.4's rows of these quantities, and how fast those of both figures settle, for comparison."""
    table = context.tables["tensor_programs_figA_4"]
    settled = settling(table)
    return pd.concat([table[table["scalar"].isin(list(quantities))], settled], ignore_index=True)


@study("tensor_programs_figA_6")
@study("tensor_programs_figA_7")
def two_hidden_layers(
    context: Context,
    *,
    laws: Sequence[str],
    swapped: Sequence[str],
    widths: Sequence[int],
    inits: int,
    quantities: Sequence[str],
    images: int,
    parametrisation: str,
    activation: str,
    step: float,
    momentum: float,
    batch_size_max: int,
    epochs_shown: Sequence[int],
) -> pd.DataFrame:
    """Rows of `distance_rows` for each width, for all weights swapped and for the matrix alone."""
    task = make_task(
        context.dataset, images=images, hidden_layers=2, parametrisation=parametrisation, activation=activation,
        step=step, momentum=momentum, batch_size_max=batch_size_max, epochs_shown=epochs_shown,
    )  # fmt: skip
    cases = [(law, which) for law in laws for which in ([ALL] if law == AGAIN else swapped)]
    frames = [frame for width in widths for frame in distance_rows(context, task, cases, width, inits, quantities)]
    return tidy(frames)


def distance_rows(
    context: Context,
    task: Task,
    cases: Sequence[tuple[str, str]],
    width: int,
    inits: int,
    quantities: Sequence[str],
) -> Iterator[pd.DataFrame]:
    """Wasserstein distances from the Gaussian ensemble, for each case, epoch and scalar.

    `distance`: from N, N/2 and N/4 networks of each law, column `networks`; a seed is one of the 1, 2 or 4 parts of the
    ensembles that do not overlap. `mean` and `deviation` of the ensemble itself come without seeds.
    """
    if inits < max(FRACTIONS):
        raise TangentbenchError(f"inits is {inits}: at least {max(FRACTIONS)} networks are needed for N/4")
    reference = task.measure(context, Ensemble(GAUSSIAN, ALL, width, inits))
    yield from summary_rows(reference, task, GAUSSIAN, ALL, width, quantities)
    for law, swapped in tqdm(cases, desc=f"width {width}", disable=None):
        measured = task.measure(context, Ensemble(law, swapped, width, inits))
        yield from summary_rows(measured, task, law, swapped, width, quantities)
        for scalar in quantities:
            for parts, fraction in FRACTIONS.items():
                for seed, part in enumerate(disjoint_parts(inits, parts)):
                    gaps = wasserstein(measured[scalar][:, part], reference[scalar][:, part])
                    yield pd.DataFrame(
                        {
                            "quantity": "distance", "scalar": scalar, "law": law, "swapped": swapped, "width": width,
                            "epoch": task.schedule.epochs, "networks": fraction, "seed": seed, "value": gaps,
                        }
                    )  # fmt: skip


def summary_rows(
    measured: Mapping[str, np.ndarray], task: Task, law: str, swapped: str, width: int, quantities: Sequence[str]
) -> Iterator[pd.DataFrame]:
    for scalar in quantities:
        for quantity, values in (("mean", measured[scalar].mean(axis=1)), ("deviation", measured[scalar].std(axis=1))):
            yield pd.DataFrame(
                {
                    "quantity": quantity, "scalar": scalar, "law": law, "swapped": swapped, "width": width,
                    "epoch": task.schedule.epochs, "value": values,
                }
            )  # fmt: skip


def limit_rows(
    context: Context,
    task: Task,
    cases: Sequence[tuple[str, str]],
    width: int,
    runs: int,
    quantities: Sequence[str],
) -> Iterator[pd.DataFrame]:
    """What a few networks so wide that their scalars hardly vary say of the limit.

    `limit gap`: the difference of a law's scalar from the Gaussian one, which is what the Wasserstein distance of two
    numbers comes down to, with the sign that it has in the other runs; a seed is a run. A run's networks of both laws
    take their weights from the same uniform numbers, so that their difference varies less than they do.
    """
    reference = task.measure(context, Ensemble(GAUSSIAN, ALL, width, runs, coupled=True))
    for law, swapped in tqdm(cases, desc=f"width {width}", disable=None):
        if law == AGAIN:
            continue
        measured = task.measure(context, Ensemble(law, swapped, width, runs, coupled=True))
        for scalar in quantities:
            gaps = gap_along_the_others(measured[scalar].astype(float) - reference[scalar].astype(float))
            for epoch, values in zip(task.schedule.epochs, gaps, strict=True):
                yield pd.DataFrame(
                    {
                        "quantity": "limit gap", "scalar": scalar, "law": law, "swapped": swapped, "width": width,
                        "epoch": epoch, "seed": range(runs), "value": values,
                    }
                )  # fmt: skip


def settling(table: pd.DataFrame) -> pd.DataFrame:
    """How much the distance still changes from N/2 to N networks, relative, at each width, epoch, law and scalar."""
    rows = table[table["quantity"] == "distance"]
    place = ["scalar", "law", "swapped", "width", "epoch"]
    by_size = {size: part.groupby(place)["value"].mean() for size, part in rows.groupby("networks")}
    change = (by_size["N/2"] - by_size["N"]).abs() / by_size["N"]
    return change.rename("value").reset_index().assign(quantity="settling")


def tidy(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    table = pd.concat(frames, ignore_index=True)
    return table.astype({"seed": "Int64", "width": "Int64", "epoch": "Int64"})
