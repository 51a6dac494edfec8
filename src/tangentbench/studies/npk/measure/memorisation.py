"""Figures 5 and 6: spectrum and training of the memorisation network against depth and width (appendix E)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from tangentbench.errors import UnknownName
from tangentbench.networks.memorisation import MemorisationNets, MemorisationSpec, draw
from tangentbench.networks.stack import on_device
from tangentbench.studies.registry import Context, study
from tangentbench.theory.memorisation import (
    critical_weight_scale,
    cumulative_spectrum,
    expected_kernel,
    expected_spectrum,
    largest_eigenvalue,
    smallest_eigenvalue,
)
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.engines.descent import descend, log_spaced_steps

DTYPES = {"float32": torch.float32, "float64": torch.float64}
STEP_RULES = ("measured", "expected")


@study("npk_fig5")
def ideal_spectrum(context: Context, *, examples: int, gate_probability: float, depths: Sequence[int]) -> pd.DataFrame:
    """Eigenvalues of E[K_0]/d from the matrix (15) itself (`measured`) beside the closed form (`closed_form`).

    Rows: the cumulated eigenvalue at each `index`, and the largest and smallest eigenvalue; `value` is the measured
    one, `difference` its distance from the closed form.
    """
    frames = []
    for depth in depths:
        eigenvalues = np.asarray(np.linalg.eigvalsh(expected_kernel(examples, depth, gate_probability)), dtype=float)
        closed = expected_spectrum(examples, depth, gate_probability)
        extremes = pd.DataFrame(
            {
                "quantity": ["largest eigenvalue", "smallest eigenvalue"],
                "value": [eigenvalues[-1], eigenvalues[0]],
                "closed_form": [
                    largest_eigenvalue(examples, depth, gate_probability),
                    smallest_eigenvalue(depth, gate_probability),
                ],
            }
        )
        sums = pd.DataFrame(
            {
                "quantity": "cumulated eigenvalue",
                "index": np.arange(1, examples + 1),
                "value": cumulative_spectrum(eigenvalues),
                "closed_form": cumulative_spectrum(closed),
            }
        )
        frames.append(pd.concat([extremes, sums]).assign(depth=depth))
    table = pd.concat(frames, ignore_index=True)
    table["difference"] = (table["value"] - table["closed_form"]).abs()
    return table.astype({"index": "Int64"})


@dataclass(frozen=True)
class Descent:
    """How every network of Figure 6 is trained."""

    step: float
    step_rule: str
    """`measured`: rho_max of each run's own K_0; `expected`: that of E[K_0]."""
    kernel_over_depth: bool
    """Whether rho_max is that of K_0/d (steps d times as long) instead of K_0."""
    steps: int
    records: int
    stop_below: float

    def __post_init__(self) -> None:
        if self.step_rule not in STEP_RULES:
            raise UnknownName("step rule", self.step_rule, STEP_RULES)

    def step_sizes(self, eigenvalues: np.ndarray, architecture: MemorisationSpec) -> torch.Tensor:
        """One step size a run; `eigenvalues` (R, n) are those of K_0 in ascending order."""
        largest = eigenvalues[:, -1]
        if self.step_rule == "expected":
            ideal = largest_eigenvalue(architecture.examples, architecture.depth, architecture.gate_probability)
            largest = np.full_like(largest, architecture.depth * ideal)
        if self.kernel_over_depth:
            largest = largest / architecture.depth
        return torch.from_numpy(self.step / largest)


@study("npk_fig6")
def memorisation(
    context: Context,
    *,
    widths: Sequence[int],
    depths: Sequence[int],
    examples: int,
    gate_probability: float,
    weight_law: str,
    runs: int,
    step: float,
    step_rule: str,
    kernel_over_depth: bool,
    steps: int,
    records: int,
    stop_below: float,
    converged_below: float,
    precision: str,
) -> pd.DataFrame:
    """Spectrum at the start and error during training; a run is a `seed`, all runs of a depth train as one batch.

    Quantities: `cumulated eigenvalue` of K_0/d at each `index` with its `ideal`; `largest eigenvalue` and `smallest
    eigenvalue` of K_0/d; `ecdf distance` from the ideal; `error ratio` ||e_t||^2/||e_0||^2 at each `step`; `steps to
    converge` until that ratio is at most `converged_below`.
    """
    if precision not in DTYPES:
        raise UnknownName("precision", precision, DTYPES)
    descent = Descent(step, step_rule, kernel_over_depth, steps, records, stop_below)
    frames = []
    for width in widths:
        for depth in depths:
            architecture = MemorisationSpec(
                width=width,
                depth=depth,
                examples=examples,
                gate_probability=gate_probability,
                weight_scale=critical_weight_scale(width, gate_probability),
                weight_law=weight_law,
            )
            nets = draw(architecture, range(runs), context.seed, DTYPES[precision])
            with on_device(nets):
                kernels = nets.tangent_kernel().cpu().numpy()
            eigenvalues = np.linalg.eigvalsh(kernels.astype(np.float64))
            curves = train(nets, architecture, descent, eigenvalues, context)
            frames.append(spectrum_rows(eigenvalues / depth, architecture).assign(width=width, depth=depth))
            frames.append(error_rows(curves, descent, converged_below).assign(width=width, depth=depth))
    table = pd.concat(frames, ignore_index=True)
    return table.astype({"index": "Int64", "step": "Int64"})


def train(
    nets: MemorisationNets, architecture: MemorisationSpec, descent: Descent, eigenvalues: np.ndarray, context: Context
) -> np.ndarray:
    """||e_t||^2 of each run at the recorded steps, (records, R); NaN after the step at which training stopped."""
    label = f"width {architecture.width}, depth {architecture.depth}"
    name = f"width{architecture.width}-depth{architecture.depth}"
    step_sizes = descent.step_sizes(eigenvalues, architecture).to(nets.first.dtype)
    with tqdm(total=descent.steps + 1, desc=label, unit="step", disable=None) as bar:
        return descend(
            nets,
            step_sizes,
            log_spaced_steps(descent.steps, descent.records),
            label=f"{label}, step {descent.step:g}/rho_max",
            stop_below=descent.stop_below,
            checkpoint=checkpoint_in(context.work, name, architecture, descent, context.seed, nets.first.shape),
            on_step=lambda done: bar.update(done - bar.n),
        )


def spectrum_rows(eigenvalues: np.ndarray, architecture: MemorisationSpec) -> pd.DataFrame:
    """The spectra (R, n) of K_0/d as rows, with their largest distance from the ideal e.c.d.f. over its end, n."""
    setting = (architecture.examples, architecture.depth, architecture.gate_probability)
    ideal = cumulative_spectrum(expected_spectrum(*setting))
    sums = cumulative_spectrum(eigenvalues)
    index = np.arange(1, architecture.examples + 1)
    curves = [
        pd.DataFrame(
            {"quantity": "cumulated eigenvalue", "seed": seed, "index": index, "value": values, "ideal": ideal}
        )
        for seed, values in enumerate(sums)
    ]
    measures: Mapping[str, Any] = {
        "largest eigenvalue": eigenvalues[:, -1],
        "smallest eigenvalue": eigenvalues[:, 0],
        "ecdf distance": np.abs(sums - ideal).max(axis=1) / ideal[-1],
    }
    return pd.concat([*curves, *(run_rows(name, values) for name, values in measures.items())])


def error_rows(squared_errors: np.ndarray, descent: Descent, converged_below: float) -> pd.DataFrame:
    """Error ratios (records, R) as rows, and each run's steps to convergence."""
    recorded = np.array(log_spaced_steps(descent.steps, descent.records))
    ratios = squared_errors / squared_errors[0]
    reached = ~np.isnan(ratios).any(axis=1)
    curves = [
        pd.DataFrame(
            {"quantity": "error ratio", "seed": seed, "step": recorded[reached], "value": ratios[reached, seed]}
        )
        for seed in range(ratios.shape[1])
    ]
    needed = [steps_until(converged_below, recorded[reached], curve[reached]) for curve in ratios.T]
    return pd.concat([*curves, run_rows("steps to converge", np.array(needed))])


def run_rows(quantity: str, values: np.ndarray) -> pd.DataFrame:
    """One row a run."""
    return pd.DataFrame({"quantity": quantity, "seed": np.arange(len(values)), "value": values})


def steps_until(threshold: float, steps: np.ndarray, ratios: np.ndarray) -> float:
    """The step at which a curve first crosses `threshold`, by interpolation of its logarithm between records.

    A curve that never does counts with all its steps, which is then a lower bound.
    """
    below = np.flatnonzero(ratios <= threshold)
    if len(below) == 0:
        return float(steps[-1])
    after = below[0]
    if after == 0:
        return 0.0
    high, low = np.log(ratios[after - 1]), np.log(max(ratios[after], np.finfo(float).tiny))
    share = (high - np.log(threshold)) / (high - low)
    return float(steps[after - 1] + share * (steps[after] - steps[after - 1]))
