"""Kernel regression on a Gram matrix in a store or in memory: alpha = (K + ridge I)^-1 Y.

Cholesky up to 50,000 inputs (in float32 and refined in float64 where that is enough, else in float64), preconditioned
conjugate gradient beyond. A path of ridges reuses what it has: the eigenvectors of a small matrix; otherwise the factor
of a neighbouring ridge as a preconditioner where that is cheaper than a new factorisation.
"""

from __future__ import annotations

import logging
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, DTypeLike

from tangentbench.errors import NotPositiveDefinite, TooLittleMemory, UnfitArray, UnknownName
from tangentbench.gram.limits import memory_allowed, require_memory
from tangentbench.gram.matrix import DenseMatrix, Float64, Matrix
from tangentbench.gram.store import Gram
from tangentbench.shapes import LabelsLike, RowsLike, SquareLike
from tangentbench.solvers.cholesky import NARROWEST_PANEL, Cholesky, factor_memory, factorise
from tangentbench.solvers.conjugate_gradient import (
    Precondition,
    Solution,
    apply,
    conjugate_gradient,
    low_rank_preconditioner,
    pivoted_cholesky,
)
from tangentbench.solvers.outcomes import Regression, outcome_of
from tangentbench.solvers.precision import FLOAT32_FROM, REFINEMENTS, estimated_condition, is_enough
from tangentbench.solvers.predictor import Predictor, code_labels

_log = logging.getLogger(__name__)

Method = Literal["auto", "cholesky", "cg", "eigen"]
METHODS = ("auto", "cholesky", "cg", "eigen")

CHOLESKY_LIMIT = 50_000
EIGEN_LIMIT = 4_000
EIGEN_PATH = 16
"""An eigendecomposition takes about as long as this many factorisations (measured at 2,000 and 3,000 inputs)."""

INPUTS_PER_ITERATION = 800
"""A factorisation takes about as long as n / 800 refinements with ten right-hand sides (measured at 3,000 inputs)."""

PRECONDITIONER_RANK = 300
JITTER_SHARES = tuple(10.0**power for power in range(-10, -3))
"""What jitter tries, as shares of the mean diagonal: the least leaves float64 some six digits of the solution."""

SHIFT_SHARES = (0.01, 0.1, 1.0, 10.0)
"""What a float32 factor may be shifted by, in n roundings of the mean diagonal."""


class SolverOptions(TypedDict, total=False):
    """How a regression is solved; every option may be left out.

    dtype: of the factor; float32 halves memory and time and is refined to float64's accuracy. "auto", the default,
        takes float64 below 4,000 inputs; above, float32 where the condition number allows, else float64; what does not
        fit in memory is made in float32, or in float64 on disk.
    jitter: "auto" adds the least power of ten that makes a singular matrix solvable, and says so.
    tolerance: relative residual that a solution must reach (1e-10), in at most `max_iterations` (1000).
    scratch: a folder for the factor, where a killed factorisation is resumed; needed only if memory is short (a store
        then uses a folder of its own).
    memory_limit: bytes beside the matrix; by default most of what the machine has free.
    progress: whether bars are shown.
    """

    dtype: DTypeLike | Literal["auto"]
    jitter: Literal["auto"] | None
    tolerance: float
    max_iterations: int
    scratch: Path | str | None
    memory_limit: float | None
    progress: bool


def regress(
    gram: Matrix | SquareLike,
    labels: LabelsLike,
    test_gram: Matrix | RowsLike | None = None,
    test_labels: LabelsLike | None = None,
    *,
    ridge: float | Sequence[float] = 0.0,
    method: Method = "auto",
    **options: Unpack[SolverOptions],
) -> Regression:
    """Fit labels on a symmetric Gram matrix (n, n), and predict where a test matrix (t, n) is given.

    labels: whole numbers (n,), coded as -0.1 1 + e_c, or real targets (n,) or (n, m).
    ridge: what is added to the diagonal, one number or a path of them.
    options: any of `SolverOptions`, by name.

    Example:
        fit = regress(gram, labels, test_gram, test_labels)
        fit.accuracy, fit.predictions, fit.predictor.save("predictor")
    """
    if method not in METHODS:
        raise UnknownName("method", method, METHODS)
    matrix = gram if isinstance(gram, Matrix) else DenseMatrix(gram, symmetric=True)
    if not matrix.symmetric:
        raise UnfitArray("regression needs a symmetric Gram matrix: create the store without x2")
    targets = as_targets(labels, matrix.shape[0])
    ridges = np.atleast_1d(np.asarray(ridge, np.float64))
    if ridges.ndim != 1 or ridges.size == 0 or not (np.isfinite(ridges) & (ridges >= 0)).all():
        raise UnfitArray(f"the ridge is {ridge}: give numbers of at least 0")
    solver = _RegressionSolver(matrix, targets, **options)
    by_ridge = solver.path(sorted(set(ridges.tolist())), method)
    solver.clear()
    return Regression(tuple(outcome_of(by_ridge[value], test_gram, test_labels) for value in ridges.tolist()))


def as_targets(labels: ArrayLike, count: int) -> Float64:
    values = np.asarray(labels)
    if values.ndim not in (1, 2) or len(values) != count or values.size == 0:
        raise UnfitArray(f"labels have shape {values.shape} for a Gram matrix of {count} inputs: give one row each")
    if values.ndim == 1 and values.dtype.kind in "iub":
        return code_labels(values)
    if values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        raise UnfitArray(f"labels of type {values.dtype} must be finite real numbers")
    return values.astype(np.float64).reshape(count, -1)


def own_scratch(gram: Gram) -> Path:
    """Where the factor of a store goes if memory is short and no folder was named; removed after the regression."""
    return gram.folder / "factor"


@dataclass
class _RegressionSolver:
    """One matrix, its targets (n, m), and what has been learned of it for the next ridge."""

    matrix: Matrix
    targets: Float64
    dtype: DTypeLike | Literal["auto"] = "auto"
    jitter: Literal["auto"] | None = None
    tolerance: float = 1e-10
    max_iterations: int = 1000
    scratch: Path | str | None = None
    memory_limit: float | None = None
    progress: bool = True
    factor: Cholesky | None = field(default=None, init=False)
    factor_ridge: float = field(default=0.0, init=False)
    low_rank: tuple[Float64, Float64] | None = field(default=None, init=False)

    @property
    def count(self) -> int:
        return self.matrix.shape[0]

    def path(self, ridges: list[float], method: Method) -> dict[float, Predictor]:
        """The predictor of every ridge; ridges ascend, so the first is the hardest and its factor serves the rest."""
        method = self.choose(method, len(ridges))
        if method == "eigen":
            return self.by_eigenvectors(ridges)
        solve = self.by_cholesky if method == "cholesky" else self.by_conjugate_gradient
        predictors: dict[float, Predictor] = {}
        neighbour: Float64 | None = None
        for ridge in ridges:
            predictors[ridge] = solve(ridge, neighbour)
            neighbour = predictors[ridge].coefficients
        return predictors

    def choose(self, method: Method, ridges: int) -> Method:
        if method != "auto":
            return method
        if (
            ridges >= EIGEN_PATH
            and self.count <= EIGEN_LIMIT
            and self.eigen_memory() <= memory_allowed(self.memory_limit)
        ):
            return "eigen"
        return "cholesky" if self.count <= CHOLESKY_LIMIT else "cg"

    def eigen_memory(self) -> float:
        return 4.0 * 8 * self.count**2

    def by_eigenvectors(self, ridges: list[float]) -> dict[float, Predictor]:
        """K = V diag(w) V^T once, then alpha = V (V^T Y / (w + ridge)) for every ridge."""
        begin = time.perf_counter()
        what = f"the eigenvectors of {self.count} inputs"
        require_memory(what, self.eigen_memory(), self.memory_limit, "choose method='cholesky'")
        values, vectors = scipy.linalg.eigh(self.matrix.to_array().astype(np.float64), overwrite_a=True)
        rotated = vectors.T @ self.targets
        noise = self.count * float(np.finfo(np.float64).eps) * float(values[-1])
        norms = np.maximum(np.linalg.norm(self.targets, axis=0), np.finfo(float).tiny)

        def attempt(whole_ridge: float) -> Solution:
            if values[0] + whole_ridge <= noise:
                what = f"the Gram matrix of {self.count} inputs"
                raise NotPositiveDefinite(what, float(values[0]) + whole_ridge, "the smallest eigenvalue")
            alpha = vectors @ (rotated / (values + whole_ridge)[:, None])
            residuals = self.targets - apply(self.matrix, whole_ridge, alpha)
            return Solution(alpha, float((np.linalg.norm(residuals, axis=0) / norms).max()), 0)

        predictors = {}
        for ridge in ridges:
            solution, jitter = self.with_jitter(ridge, attempt)
            smallest = float(values[0]) + ridge + jitter
            predictors[ridge] = self.predictor(solution, ridge, jitter, "eigenvectors", smallest, begin)
        return predictors

    def with_jitter(self, ridge: float, attempt: Callable[[float], Solution]) -> tuple[Solution, float]:
        """The first attempt at ridge + jitter that succeeds; without leave to add jitter the first is the last."""
        mean = float(self.matrix.diagonal().mean())
        steps = [] if self.jitter is None else [mean * share for share in JITTER_SHARES]
        for jitter in [0.0, *steps]:
            try:
                solution = attempt(ridge + jitter)
            except NotPositiveDefinite as error:
                refusal = error
                continue
            if jitter:
                warnings.warn(
                    f"the Gram matrix is numerically singular: {jitter:.3g} was added to its diagonal", stacklevel=2
                )
            return solution, jitter
        raise refusal

    def by_cholesky(self, ridge: float, neighbour: Float64 | None) -> Predictor:
        begin = time.perf_counter()
        solution: Solution | None
        if self.factor is not None and self.expected_iterations(ridge) <= self.count / INPUTS_PER_ITERATION:
            budget = int(self.count / INPUTS_PER_ITERATION)
            solution = self.iterate(self.factor.solve, ridge, neighbour, budget)
            if solution.reached(self.tolerance):
                method = f"Cholesky factor of a smaller ridge, {solution.iterations} refinements"
                return self.predictor(solution, ridge, 0.0, method, None, begin)
        kind, scratch = self.factor_place()
        if self.tries_single(kind, scratch):
            solution = self.in_single(ridge)
            if solution is not None:
                assert self.factor is not None
                method = f"Cholesky in float32, {solution.iterations} refinements"
                return self.predictor(solution, ridge, 0.0, method, self.factor.smallest_pivot, begin)

        def attempt(whole_ridge: float) -> Solution:
            # An old factor is let go before the next one is made: there is room for one.
            self.factor = None
            self.factor = self.factorised(whole_ridge, kind, scratch)
            self.factor_ridge = whole_ridge
            return self.iterate(self.factor.solve, whole_ridge, None, self.max_iterations)

        solution, jitter = self.with_jitter(ridge, attempt)
        assert self.factor is not None
        method = f"Cholesky in {kind.name}{'' if scratch is None else ' on disk'}, {solution.iterations} refinements"
        return self.predictor(solution, ridge, jitter, method, self.factor.smallest_pivot, begin)

    def tries_single(self, kind: np.dtype[Any], scratch: Path | None) -> bool:
        """Whether a float32 factor in memory comes first: nobody chose a precision, and float64 would take long."""
        return self.dtype == "auto" and kind == np.float64 and scratch is None and self.count >= FLOAT32_FROM

    def in_single(self, ridge: float) -> Solution | None:
        """The solution by a float32 factor and refinement; None, and a line in the log, where float64 is needed."""
        self.factor = None
        single = np.dtype(np.float32)
        try:
            factor = factorise(self.matrix, ridge, dtype=single, memory_limit=self.memory_limit, progress=self.progress)
        except NotPositiveDefinite:
            _log.info("the matrix of %d inputs is singular in float32: its factor is made in float64", self.count)
            return None
        condition = estimated_condition(self.matrix, ridge, factor)
        if not is_enough(condition):
            _log.info("a condition number of %.1e is too much for float32: the factor is made in float64", condition)
            return None
        solution = self.iterate(factor.solve, ridge, None, min(REFINEMENTS, self.max_iterations))
        if not solution.reached(self.tolerance):
            _log.info("float32 was refined to %.1e only: the factor is made in float64", solution.residual)
            return None
        self.factor, self.factor_ridge = factor, ridge
        return solution

    def expected_iterations(self, ridge: float) -> float:
        """How many refinements at `ridge` the factor at hand will need at least.

        With the factor of K + r I as preconditioner the condition number is (w + ridge) / (w + r), w the smallest
        eigenvalue of K, and w + r is at most the smallest pivot.
        """
        assert self.factor is not None
        condition = 1.0 + (ridge - self.factor_ridge) / self.factor.smallest_pivot
        return 0.5 * float(np.sqrt(condition) * np.log(2.0 / self.tolerance))

    def factor_place(self) -> tuple[np.dtype[Any], Path | None]:
        """The factor's precision and, if it does not go into memory, its folder."""
        allowed = memory_allowed(self.memory_limit)
        scratch = None if self.scratch is None else Path(self.scratch)
        kinds = [np.dtype(name) for name in (("float64", "float32") if self.dtype == "auto" else (self.dtype,))]
        if any(kind not in (np.float32, np.float64) for kind in kinds):
            raise UnfitArray(f"a factor cannot be made in {self.dtype}: choose float32 or float64")
        if scratch is not None:
            return kinds[0], scratch
        for kind in kinds:
            if factor_memory(self.count, kind, min(self.count, NARROWEST_PANEL))[0] <= allowed:
                return kind, None
        if not isinstance(self.matrix, Gram):
            needed = factor_memory(self.count, kinds[-1], min(self.count, NARROWEST_PANEL))[0]
            what = f"the Cholesky factor of {self.count} inputs in {kinds[-1].name}"
            raise TooLittleMemory(what, needed, allowed, "name a scratch folder for it, or choose method='cg'")
        return kinds[0], own_scratch(self.matrix)

    def clear(self) -> None:
        """Let the factor go; one on disk stays only where the user wanted it."""
        self.factor = None
        if self.scratch is None and isinstance(self.matrix, Gram):
            shutil.rmtree(own_scratch(self.matrix), ignore_errors=True)

    def factorised(self, ridge: float, kind: np.dtype[Any], scratch: Path | None) -> Cholesky:
        """The factor at a ridge, in float32 if need be at a larger one.

        In float32 a matrix may be singular by rounding alone: then a shifted factor preconditions the unshifted
        problem, and the refinement finds out whether that one has a solution.
        """
        rounding = self.count * float(np.finfo(kind).eps) * float(self.matrix.diagonal().mean())
        shifts = [0.0] if kind == np.float64 else [0.0, *(rounding * share for share in SHIFT_SHARES)]
        for shift in shifts:
            try:
                return factorise(
                    self.matrix,
                    ridge + shift,
                    dtype=kind,
                    scratch=scratch,
                    memory_limit=self.memory_limit,
                    progress=self.progress,
                )
            except NotPositiveDefinite as error:
                refusal = error
        raise refusal

    def iterate(self, precondition: Precondition, ridge: float, start: Float64 | None, max_iterations: int) -> Solution:
        return conjugate_gradient(
            self.matrix,
            self.targets,
            ridge,
            precondition,
            start=start,
            tolerance=self.tolerance,
            max_iterations=max_iterations,
            progress=self.progress,
        )

    def by_conjugate_gradient(self, ridge: float, neighbour: Float64 | None) -> Predictor:
        begin = time.perf_counter()
        vectors = 8.0 * self.count * (8 * self.targets.shape[1] + 4)
        require_memory(
            f"the conjugate gradient on {self.count} inputs",
            vectors,
            self.memory_limit,
            "allow more or fit fewer columns",
        )
        room = (memory_allowed(self.memory_limit) - vectors) / (8.0 * self.count)
        rank = max(1, min(PRECONDITIONER_RANK, self.count // 2, int(room) // 2))
        if self.low_rank is None:
            self.low_rank = pivoted_cholesky(self.matrix, rank, self.progress)
        low_rank = self.low_rank

        def attempt(whole_ridge: float) -> Solution:
            precondition = low_rank_preconditioner(*low_rank, whole_ridge)
            return self.iterate(precondition, whole_ridge, neighbour, self.max_iterations)

        solution, jitter = self.with_jitter(ridge, attempt)
        method = f"conjugate gradient, {solution.iterations} iterations, preconditioner of rank {rank}"
        return self.predictor(solution, ridge, jitter, method, None, begin)

    def predictor(
        self, solution: Solution, ridge: float, jitter: float, method: str, pivot: float | None, begin: float
    ) -> Predictor:
        if not solution.reached(self.tolerance):
            warnings.warn(
                f"the solution at ridge {ridge:g} has a relative residual of {solution.residual:.2g}, "
                f"above the tolerance of {self.tolerance:g}",
                stacklevel=2,
            )
        store = self.matrix if isinstance(self.matrix, Gram) else None
        return Predictor(
            coefficients=solution.x,
            ridge=ridge,
            jitter=jitter,
            method=method,
            residual=solution.residual,
            iterations=solution.iterations,
            smallest_pivot=pivot,
            seconds=time.perf_counter() - begin,
            kernel={} if store is None else store.kernel,
            train_sha256="" if store is None else store.row_inputs.sha256,
        )
