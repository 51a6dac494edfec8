"""The certificate of a Gram store: what its matrix is, and how far it can be trusted."""

from __future__ import annotations

import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.linalg

from tangentbench.atomic import read_json, write_json
from tangentbench.errors import TangentbenchError
from tangentbench.gram.lanczos import Ritz, extremes, ritz
from tangentbench.gram.limits import DENSE_LIMIT, LANCZOS_STEPS, memory_allowed, require_memory
from tangentbench.gram.matrix import Float64
from tangentbench.gram.store import Gram, Kernel

FEWEST_STEPS = 20
SAMPLED_ENTRIES = 64
PACKAGES = ("tangentbench", "numpy", "scipy", "torch", "jax", "neural-tangents")


class Factor(Protocol):
    """A factor of a matrix, for instance `tangentbench.solvers.cholesky.Cholesky`."""

    def solve(self, b: Float64, /) -> Float64:
        """x with K x = b."""


def certificate_path(folder: Path) -> Path:
    return folder / "certificate.json"


def certify(
    gram: Gram,
    kernel: Kernel | None = None,
    second: Kernel | None = None,
    *,
    factor: Factor | None = None,
    entries: int = SAMPLED_ENTRIES,
    seed: int = 0,
    memory_limit: float | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Examine a finished store and write certificate.json beside it.

    kernel: the function the store was computed with, to measure its asymmetry (needs the store opened with its inputs);
    second: another implementation of the same kernel, compared on about `entries` random entries;
    factor: a Cholesky factor of the matrix (with any ridge), which pins down the smallest eigenvalue above 5,000 rows.
    """
    begin = time.perf_counter()
    inputs = {"rows": gram.row_inputs.sha256, "columns": gram.column_inputs.sha256}
    certificate: dict[str, Any] = {
        "identity": gram.identity,
        "kernel": gram.kernel,
        "inputs_sha256": inputs,
        "shape": list(gram.shape),
        "symmetric": gram.symmetric,
        "precision": gram.dtype.name,
        "seed": seed,
        "spectrum": spectrum(gram, factor, seed, memory_limit, progress) if gram.symmetric else None,
        "asymmetry": None,
        "reproduced": None,
        "second_backend": None,
    }
    if kernel is not None or second is not None:
        certificate.update(compare_sample(gram, kernel, second, entries, seed))
    certificate["seconds"] = round(time.perf_counter() - begin, 3)
    certificate["versions"] = versions()
    write_json(certificate_path(gram.folder), certificate)
    return certificate


def read_certificate(gram: Gram) -> dict[str, Any] | None:
    """The certificate beside a store, or None if there is none or the store has grown since."""
    path = certificate_path(gram.folder)
    if not path.exists():
        return None
    certificate: dict[str, Any] = read_json(path)
    return certificate if certificate.get("identity") == gram.identity else None


def spectrum(
    gram: Gram, factor: Factor | None, seed: int, memory_limit: float | None, progress: bool
) -> dict[str, Any]:
    """Both extreme eigenvalues with the method and, where they are approximate, the residual |K v - value v|.

    rounding_noise: what rounding the entries can move an eigenvalue by, n eps max K_ii; `verdict` compares with it.
    """
    count = gram.shape[0]
    if count <= DENSE_LIMIT and 3 * 8 * count**2 <= memory_allowed(memory_limit):
        values = scipy.linalg.eigvalsh(gram.to_array().astype(np.float64), overwrite_a=True)
        smallest, largest, method = float(values[0]), float(values[-1]), "all eigenvalues (dense)"
        residuals = {}
        bound = False
    else:
        low, high, method = lanczos_ends(gram, factor, seed, memory_limit, progress)
        smallest, largest, bound = low.value, high.value, factor is None
        residuals = {"smallest_residual": low.residual, "largest_residual": high.residual}
    noise = rounding_noise(gram)
    return {
        "verdict": verdict(smallest, noise, bound),
        "rounding_noise": noise,
        "smallest_eigenvalue": smallest,
        "largest_eigenvalue": largest,
        "condition_number": largest / smallest if smallest > 0 else None,
        "method": method,
        **residuals,
    }


def rounding_noise(gram: Gram) -> float:
    return gram.shape[0] * float(np.finfo(gram.dtype).eps) * float(np.abs(gram.diagonal()).max())


def verdict(smallest: float, noise: float, upper_bound: bool = False) -> str:
    """The matrix of exact entries is at most `noise` away, so only a smallest eigenvalue beyond it proves a sign."""
    if smallest < -noise:
        return "not positive definite"
    if smallest <= noise:
        return "indefinite within rounding"
    return "no sign of indefiniteness" if upper_bound else "positive definite"


def lanczos_ends(
    gram: Gram, factor: Factor | None, seed: int, memory_limit: float | None, progress: bool
) -> tuple[Ritz, Ritz, str]:
    count = gram.shape[0]
    vector_bytes = 8 * count
    fixed = 6 * vector_bytes + 3 * 8 * gram.manifest["tile"] ** 2
    require_memory(f"Lanczos on {count} inputs", fixed + FEWEST_STEPS * vector_bytes, memory_limit, "allow more")
    steps = int(min(LANCZOS_STEPS, (memory_allowed(memory_limit) - fixed) / vector_bytes))
    if factor is None:
        low, high = extremes(gram.matmul, count, steps=steps, seed=seed, progress=progress)
        method = f"Lanczos, at most {steps} steps; the smallest value is an upper bound"
        return low, high, method
    (high,) = extremes(gram.matmul, count, ends=(-1,), steps=steps, seed=seed, progress=progress)
    (inverse,) = extremes(factor.solve, count, ends=(-1,), steps=steps, seed=seed, progress=progress)
    return ritz(gram.matmul, inverse.vector), high, f"Lanczos, at most {steps} steps; the smallest by Cholesky solves"


def compare_sample(gram: Gram, kernel: Kernel | None, second: Kernel | None, entries: int, seed: int) -> dict[str, Any]:
    """Recompute about `entries` random entries, as they are and mirrored, and compare them with the stored ones."""
    if gram.x1 is None or gram.x2 is None:
        raise TangentbenchError(f"certifying {gram.folder} with a kernel needs the inputs: open it with them")
    side = max(1, round(entries**0.5))
    random = np.random.default_rng(seed)
    rows, columns = (np.sort(random.choice(n, min(side, n), replace=False)) for n in gram.shape)
    x1, x2 = np.ascontiguousarray(gram.x1[rows]), np.ascontiguousarray(gram.x2[columns])
    stored = gram.entries(rows, columns).astype(np.float64)
    results: dict[str, Any] = {}
    if kernel is not None:
        values = np.asarray(kernel(x1, x2), np.float64)
        results["reproduced"] = disagreement(stored, values)
        if gram.symmetric:
            results["asymmetry"] = disagreement(values, np.asarray(kernel(x2, x1), np.float64).T)
    if second is not None:
        results["second_backend"] = disagreement(stored, np.asarray(second(x1, x2), np.float64))
    return results


def disagreement(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> dict[str, Any]:
    largest = float(np.abs(a - b).max())
    scale = float(np.abs(a).max())
    return {
        "entries": int(a.size),
        "largest_difference": largest,
        "relative_to_largest_entry": largest / scale if scale else largest,
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
