"""Figures A.4 to A.7: how far trained networks' scalars differ between weight distributions, against the width."""

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
from tangentbench.errors import TangentbenchError
from tangentbench.networks.initialisation import stream
from tangentbench.networks.small_mlp import ShallowNets, Span, bytes_per_network, draw, joined
from tangentbench.networks.weight_distributions import GAUSSIAN, coupled
from tangentbench.studies.registry import Context, study
from tangentbench.studies.tensor_programs.measure.swapping import ALL, chunks, distributions_of, kept, named_stream
from tangentbench.studies.tensor_programs.settings import (
    PARTS,
    Ensembles,
    OneHiddenLayer,
    ReadoutNorms,
    TwoHiddenLayers,
)
from tangentbench.theory.transport import disjoint_parts, gap_along_the_others, wasserstein
from tangentbench.training.engines.ensembles import EnsembleSchedule, train

_BATCH_BYTES = 4 * 2**20
"""Weights and momenta of networks that are drawn and train together: as many as the processor's cache holds."""
_DEVICE_BATCH_BYTES = 128 * 2**20
"""On another device so many of those batches train together that they take this much."""
_AGAIN = "gaussian_again"
"""A second, independent Gaussian ensemble: what the distance is where there is no difference."""
_QUANTITIES = ("train_loss", "readout_norm")
_FRACTIONS = {1: "N", 2: "N/2", PARTS: "N/4"}
_ORDER_STREAM = 11


@dataclass(frozen=True)
class Ensemble:
    """Networks that differ in their random start only."""

    distribution: str
    swapped: str
    width: int
    runs: int
    coupled: bool = False
    """Whether all distributions take their weights from one stream of uniform numbers."""

    @property
    def label(self) -> str:
        return f"{self.distribution}-{self.swapped}-{self.width}{'-coupled' * self.coupled}"

    @property
    def columns(self) -> dict[str, str | int]:
        """What the table calls it."""
        return {"law": self.distribution, "swapped": self.swapped, "width": self.width}


@dataclass(frozen=True)
class Task:
    """What all networks of a figure learn, and how."""

    span: Span
    labels: Tensor
    classes: int
    hidden_layers: int
    parametrisation: str
    schedule: EnsembleSchedule

    @classmethod
    def of(cls, dataset: Dataset, settings: Ensembles, hidden_layers: int) -> Task:
        """The first images of the training set as flat vectors of their pixels."""
        images, training = settings.images, settings.training
        pictures = torch.from_numpy(dataset.x_train[:images].reshape(images, -1))
        epochs, batch = tuple(sorted(training.epochs_shown)), min(images, training.batch_size_max)
        return cls(
            span=Span.of(pictures),
            labels=torch.from_numpy(np.asarray(dataset.y_train[:images])),
            classes=len(dataset.classes),
            hidden_layers=hidden_layers,
            parametrisation=training.parametrisation,
            schedule=EnsembleSchedule(epochs, batch, training.learning_rate, training.momentum),
        )

    def measure(self, context: Context, ensemble: Ensemble) -> dict[str, np.ndarray]:
        """Each quantity after the epochs shown, (epochs, runs)."""
        made = kept(context.work, ensemble.label, lambda: self._trained(context, ensemble))
        return {name: values.numpy() for name, values in made.items()}

    def _trained(self, context: Context, ensemble: Ensemble) -> dict[str, Tensor]:
        size = bytes_per_network(self.span.shape(ensemble.width, self.hidden_layers, self.classes))
        batches = list(chunks(ensemble.runs, size, _BATCH_BYTES))
        on_cpu = context.device.type == CPU
        together = 1 if on_cpu else max(1, _DEVICE_BATCH_BYTES // max(size, _BATCH_BYTES))

        def order(epoch: int) -> Tensor:
            return torch.randperm(len(self.span.inputs), generator=stream(context.seed, _ORDER_STREAM, epoch))

        parts = []
        for start in range(0, len(batches), together):
            nets = joined([self._drawn(context, ensemble, part) for part in batches[start : start + together]])
            parts.append(train(nets, self.span, self.labels, self.classes, self.schedule, order))
        measured = {name: np.concatenate([part[name] for part in parts], axis=1) for name in _QUANTITIES}
        if not all(np.isfinite(values).all() for values in measured.values()):
            raise TangentbenchError(
                f"a network of {ensemble.label} diverged with learning rate {self.schedule.step:g}: lower it"
            )
        return {name: torch.from_numpy(values) for name, values in measured.items()}

    def _drawn(self, context: Context, ensemble: Ensemble, part: range) -> ShallowNets:
        """Some of the ensemble's networks, untrained."""
        same = GAUSSIAN if ensemble.distribution == _AGAIN else ensemble.distribution
        matrices, vectors = distributions_of(same, ensemble.swapped)
        name = f"{ensemble.distribution} {ensemble.swapped}"
        if ensemble.coupled:
            matrices, vectors, name = coupled(matrices), coupled(vectors), "coupled"
        generator = named_stream(name, context.seed, ensemble.width, self.hidden_layers, part.start)
        shape = self.span.shape(ensemble.width, self.hidden_layers, self.classes)
        return draw(self.span, shape, len(part), matrices, vectors, self.parametrisation, generator)


@study("tensor_programs_figA_4")
def one_hidden_layer(context: Context, settings: OneHiddenLayer) -> pd.DataFrame:
    """Rows of `_distance_rows` for each width, and of `_limit_rows` from a few very wide networks."""
    task = Task.of(context.dataset, settings, hidden_layers=1)
    cases = [(name, ALL) for name in settings.distributions]
    frames = [frame for width in settings.widths for frame in _distance_rows(context, task, settings, cases, width)]
    return _tidy([*frames, *_limit_rows(context, task, settings)])


@study("tensor_programs_figA_5")
def readout_norms(context: Context, settings: ReadoutNorms) -> pd.DataFrame:
    """Figure A.4's rows of these quantities, and how fast those of both figures settle, for comparison."""
    table = context.tables["tensor_programs_figA_4"]
    settled = settling(table)
    return pd.concat([table[table["scalar"].isin(list(settings.quantities))], settled], ignore_index=True)


@study("tensor_programs_figA_6")
@study("tensor_programs_figA_7")
def two_hidden_layers(context: Context, settings: TwoHiddenLayers) -> pd.DataFrame:
    """Rows of `_distance_rows` for each width, for all weights swapped and for the matrix alone."""
    task = Task.of(context.dataset, settings, hidden_layers=2)
    cases = [
        (name, swapped)
        for name in settings.distributions
        for swapped in ([ALL] if name == _AGAIN else settings.swapped)
    ]
    return _tidy(
        [frame for width in settings.widths for frame in _distance_rows(context, task, settings, cases, width)]
    )


def _distance_rows(
    context: Context, task: Task, settings: Ensembles, cases: Sequence[tuple[str, str]], width: int
) -> Iterator[pd.DataFrame]:
    """Wasserstein distances from the Gaussian ensemble, for each case, epoch and scalar.

    `distance`: from N, N/2 and N/4 networks of each distribution, column `networks`; a seed is one of the 1, 2 or 4
    parts of the ensembles that do not overlap. `mean` and `deviation` of the ensemble itself come without seeds.
    """
    gaussian = Ensemble(GAUSSIAN, ALL, width, settings.inits)
    reference = task.measure(context, gaussian)
    yield from _summary_rows(reference, task, gaussian, settings.quantities)
    for name, swapped in tqdm(cases, desc=f"width {width}", disable=None):
        ensemble = Ensemble(name, swapped, width, settings.inits)
        measured = task.measure(context, ensemble)
        yield from _summary_rows(measured, task, ensemble, settings.quantities)
        for scalar in settings.quantities:
            for parts, fraction in _FRACTIONS.items():
                for seed, part in enumerate(disjoint_parts(settings.inits, parts)):
                    gaps = wasserstein(measured[scalar][:, part], reference[scalar][:, part])
                    yield pd.DataFrame(
                        {
                            "quantity": "distance", "scalar": scalar, **ensemble.columns,
                            "epoch": task.schedule.epochs, "networks": fraction, "seed": seed, "value": gaps,
                        }
                    )  # fmt: skip


def _summary_rows(
    measured: Mapping[str, np.ndarray], task: Task, ensemble: Ensemble, quantities: Sequence[str]
) -> Iterator[pd.DataFrame]:
    for scalar in quantities:
        for quantity, values in (("mean", measured[scalar].mean(axis=1)), ("deviation", measured[scalar].std(axis=1))):
            columns = {"quantity": quantity, "scalar": scalar, **ensemble.columns}
            yield pd.DataFrame({**columns, "epoch": task.schedule.epochs, "value": values})


def _limit_rows(context: Context, task: Task, settings: OneHiddenLayer) -> Iterator[pd.DataFrame]:
    """What a few networks so wide that their scalars hardly vary say of the limit.

    `limit gap`: the difference of a distribution's scalar from the Gaussian one, which is what the Wasserstein distance
    of two numbers comes down to, with the sign that it has in the other runs; a seed is a run. A run's networks of both
    distributions take their weights from the same uniform numbers, so that their difference varies less than they do.
    """
    width, runs = settings.limit.width, settings.limit.runs
    reference = task.measure(context, Ensemble(GAUSSIAN, ALL, width, runs, coupled=True))
    for name in tqdm(settings.distributions, desc=f"width {width}", disable=None):
        if name == _AGAIN:
            continue
        ensemble = Ensemble(name, ALL, width, runs, coupled=True)
        measured = task.measure(context, ensemble)
        for scalar in settings.quantities:
            gaps = gap_along_the_others(measured[scalar].astype(float) - reference[scalar].astype(float))
            for epoch, values in zip(task.schedule.epochs, gaps, strict=True):
                columns = {"quantity": "limit gap", "scalar": scalar, **ensemble.columns}
                yield pd.DataFrame({**columns, "epoch": epoch, "seed": range(runs), "value": values})


def settling(table: pd.DataFrame) -> pd.DataFrame:
    """How much the distance still changes from N/2 to N networks, relative, for each curve, width and epoch."""
    rows = table[table["quantity"] == "distance"]
    keys = ["scalar", "law", "swapped", "width", "epoch"]
    by_size = {size: part.groupby(keys)["value"].mean() for size, part in rows.groupby("networks")}
    change = (by_size["N/2"] - by_size["N"]).abs() / by_size["N"]
    return change.rename("value").reset_index().assign(quantity="settling")


def _tidy(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    table = pd.concat(frames, ignore_index=True)
    return table.astype({"seed": "Int64", "width": "Int64", "epoch": "Int64"})
