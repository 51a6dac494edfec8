"""Figures 5 and 6: spectrum and training of the memorisation network against depth and width (appendix E)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from tangentbench.networks.architecture import MemorisationSpec
from tangentbench.networks.memorisation import MemorisationNets, draw
from tangentbench.networks.stack import on_device
from tangentbench.studies.npk.settings import IdealSpectrum, Memorisation, MemorisationDescent
from tangentbench.studies.registry import Context, study
from tangentbench.theory.memorisation import (
    cumulative_spectrum,
    expected_kernel,
    expected_spectrum,
    largest_eigenvalue,
    smallest_eigenvalue,
)
from tangentbench.training.checkpoint import checkpoint_in
from tangentbench.training.engines.descent import descend, log_spaced_steps

_DTYPES = {"float32": torch.float32, "float64": torch.float64}


@study("npk_fig5")
def ideal_spectrum(context: Context, settings: IdealSpectrum) -> pd.DataFrame:
    """Eigenvalues of E[K_0]/d from the matrix (15) itself (`measured`) beside the closed form (`closed_form`).

    Rows: the cumulated eigenvalue at each `index`, and the largest and smallest eigenvalue; `value` is the measured
    one, `difference` its distance from the closed form.
    """
    frames = []
    for depth in settings.depths:
        kernel = expected_kernel(settings.examples, depth, settings.gate_probability)
        eigenvalues = np.asarray(np.linalg.eigvalsh(kernel), dtype=float)
        frames.append(_ideal_rows(eigenvalues, depth, settings.gate_probability).assign(depth=depth))
    table = pd.concat(frames, ignore_index=True)
    table["difference"] = (table["value"] - table["closed_form"]).abs()
    return table.astype({"index": "Int64"})


def _ideal_rows(eigenvalues: np.ndarray, depth: int, gate_probability: float) -> pd.DataFrame:
    """Ascending eigenvalues (n,) of one depth beside their closed forms."""
    examples = len(eigenvalues)
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
            "closed_form": cumulative_spectrum(expected_spectrum(examples, depth, gate_probability)),
        }
    )
    return pd.concat([extremes, sums])


@study("npk_fig6")
def memorisation(context: Context, settings: Memorisation) -> pd.DataFrame:
    """Spectrum at the start and error during training; a run is a `seed`, all runs of a depth train as one batch.

    Quantities: `cumulated eigenvalue` of K_0/d at each `index` with its `ideal`; `largest eigenvalue` and `smallest
    eigenvalue` of K_0/d; `ecdf distance` from the ideal; `error ratio` ||e_t||^2/||e_0||^2 at each `step`; `steps to
    converge` until that ratio is at most `converged_below`.
    """
    frames = []
    for spec in settings.networks():
        nets = draw(spec, range(settings.runs), context.seed, _DTYPES[settings.precision])
        with on_device(nets):
            kernels = nets.tangent_kernel().cpu().numpy()
        eigenvalues = np.linalg.eigvalsh(kernels.astype(np.float64))
        curves = _train(nets, spec, settings.descent, eigenvalues, context)
        spectra = _spectrum_rows(eigenvalues / spec.depth, spec)
        errors = _error_rows(curves, settings.descent, settings.converged_below)
        frames += [rows.assign(width=spec.width, depth=spec.depth) for rows in (spectra, errors)]
    table = pd.concat(frames, ignore_index=True)
    return table.astype({"index": "Int64", "step": "Int64"})


def _train(
    nets: MemorisationNets,
    spec: MemorisationSpec,
    descent: MemorisationDescent,
    eigenvalues: np.ndarray,
    context: Context,
) -> np.ndarray:
    """||e_t||^2 of each run at the recorded steps, (records, R); NaN after the step at which training stopped."""
    label = f"width {spec.width}, depth {spec.depth}"
    name = f"width{spec.width}-depth{spec.depth}"
    learning_rates = _learning_rates(descent, eigenvalues, spec).to(nets.first.dtype)
    with tqdm(total=descent.steps + 1, desc=label, unit="step", disable=None) as bar:
        return descend(
            nets,
            learning_rates,
            log_spaced_steps(descent.steps, descent.records),
            label=f"{label}, learning rate {descent.learning_rate_times_rho_max:g}/rho_max",
            stop_below=descent.stop_below,
            checkpoint=checkpoint_in(context.work, name),
            on_step=lambda done: bar.update(done - bar.n),
        )


def _learning_rates(descent: MemorisationDescent, eigenvalues: np.ndarray, spec: MemorisationSpec) -> torch.Tensor:
    """One learning rate per run; `eigenvalues` (R, n) are those of K_0 in ascending order."""
    largest = eigenvalues[:, -1]
    if descent.rho_max == "expected":
        ideal = largest_eigenvalue(spec.examples, spec.depth, spec.gate_probability)
        largest = np.full_like(largest, spec.depth * ideal)
    if descent.kernel_over_depth:
        largest = largest / spec.depth
    return torch.from_numpy(descent.learning_rate_times_rho_max / largest)


def _spectrum_rows(eigenvalues: np.ndarray, spec: MemorisationSpec) -> pd.DataFrame:
    """The spectra (R, n) of K_0/d as rows, with their largest distance from the ideal e.c.d.f. over its end, n."""
    ideal = cumulative_spectrum(expected_spectrum(spec.examples, spec.depth, spec.gate_probability))
    sums = cumulative_spectrum(eigenvalues)
    index = np.arange(1, spec.examples + 1)
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
    return pd.concat([*curves, *(_run_rows(name, values) for name, values in measures.items())])


def _error_rows(squared_errors: np.ndarray, descent: MemorisationDescent, converged_below: float) -> pd.DataFrame:
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
    return pd.concat([*curves, _run_rows("steps to converge", np.array(needed))])


def _run_rows(quantity: str, values: np.ndarray) -> pd.DataFrame:
    """One row per run."""
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
