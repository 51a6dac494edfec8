"""Kernel regression against direct solves, and what it says when a matrix cannot be solved."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gaussian import SETTINGS, finish, gaussian, inputs, start_python

from tangentbench.errors import (
    NotPositiveDefinite,
    ResultUnreadable,
    StoreMismatch,
    TangentbenchError,
    TooLittleMemory,
    UnfitArray,
    UnknownName,
)
from tangentbench.gram.matrix import DenseMatrix
from tangentbench.gram.store import Gram
from tangentbench.solvers import precision, regression
from tangentbench.solvers.cholesky import factor_memory, factorise
from tangentbench.solvers.conjugate_gradient import conjugate_gradient, low_rank_preconditioner, pivoted_cholesky
from tangentbench.solvers.predictor import Predictor, code_labels
from tangentbench.solvers.regression import regress

FACTORISE = """
import sys
import numpy as np
from pathlib import Path
from tangentbench.gram import tile_file
from tangentbench.solvers.cholesky import factorise
from tangentbench.gram.matrix import DenseMatrix
import time
if len(sys.argv) > 4:
    write = tile_file.write
    tile_file.write = lambda *arguments: (write(*arguments), time.sleep(0.1))
factor = factorise(DenseMatrix(np.load(sys.argv[1]), True), 0.1, scratch=sys.argv[2], panel=32)
np.save(sys.argv[3], factor.solve(np.ones(len(np.load(sys.argv[1])))))
"""


def matrix_with_condition(count: Any, condition: Any, seed: int = 0) -> Any:
    """Symmetric, eigenvalues from 1 down to 1 / condition."""
    random = np.random.default_rng(seed)
    q, _ = np.linalg.qr(random.normal(size=(count, count)))
    matrix = (q * np.geomspace(1, 1 / condition, count)) @ q.T
    return (matrix + matrix.T) / 2


def targets(count: Any, columns: int = 3, seed: int = 1) -> Any:
    return np.random.default_rng(seed).normal(size=(count, columns))


@pytest.fixture
def store(tmp_path: Path) -> Any:
    gram = Gram.create(tmp_path / "train", inputs(150, shape=(20,)), kernel=SETTINGS, tile=32, dtype="float64")
    gram.compute(gaussian)
    return gram


@pytest.fixture
def test_store(tmp_path: Path) -> Any:
    x1, x2 = inputs(40, seed=5, shape=(20,)), inputs(150, shape=(20,))
    gram = Gram.create(tmp_path / "test", x1, x2, kernel=SETTINGS, tile=32, dtype="float64")
    gram.compute(gaussian)
    return gram


def test_the_papers_label_coding() -> None:
    assert np.allclose(code_labels(np.array([2, 0])), [[-0.1, -0.1, 0.9], [0.9, -0.1, -0.1]])
    assert code_labels(np.array([0, 1]), classes=10).shape == (2, 10)
    with pytest.raises(UnfitArray, match="0 to 2"):
        code_labels(np.array([0, 3]), classes=3)
    with pytest.raises(UnfitArray, match="whole numbers"):
        code_labels(np.array([0.5]))


@pytest.mark.parametrize("panel", [1, 7, 64, 100, 300])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocked_factor_is_the_cholesky_factor(panel: int, dtype: str) -> None:
    matrix = matrix_with_condition(100, 50)
    factor = factorise(DenseMatrix(matrix, True), 0.25, dtype=dtype, panel=panel)
    expected = np.linalg.cholesky(matrix + 0.25 * np.eye(100))
    for k, (first, last) in enumerate(zip(factor.edges, factor.edges[1:], strict=False)):
        found = factor.panels.rows(k, first, 100)
        assert np.allclose(found, expected[first:, first:last], rtol=0, atol=50 * np.finfo(dtype).eps)
    assert np.isclose(factor.smallest_pivot, np.diagonal(expected).min() ** 2, rtol=1e-5)


def test_factor_on_disk_equals_factor_in_memory(tmp_path: Path) -> None:
    matrix = DenseMatrix(matrix_with_condition(120, 50), True)
    b = targets(120)
    in_memory = factorise(matrix, 0.1, panel=32).solve(b)
    assert np.array_equal(factorise(matrix, 0.1, panel=32, scratch=tmp_path).solve(b), in_memory)
    panels = sorted(tmp_path.rglob("panel-*.npy"))
    times = [path.stat().st_mtime_ns for path in panels]
    damaged = bytearray(panels[2].read_bytes())
    damaged[500] ^= 1
    panels[2].write_bytes(damaged)
    assert np.array_equal(factorise(matrix, 0.1, panel=32, scratch=tmp_path).solve(b), in_memory)
    changed = [path.stat().st_mtime_ns != time for path, time in zip(panels, times, strict=True)]
    assert changed == [False, False, True, False]


def test_killed_factorisation_goes_on_from_its_last_panel(tmp_path: Path) -> None:
    matrix = matrix_with_condition(200, 50)
    np.save(tmp_path / "matrix.npy", matrix)
    scratch, solution = tmp_path / "scratch", tmp_path / "solution.npy"
    process = start_python(FACTORISE, tmp_path / "matrix.npy", scratch, solution, "slowly")
    while process.poll() is None and len(list(scratch.rglob("panel-*.npy"))) < 3:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = {path: path.stat().st_mtime_ns for path in scratch.rglob("panel-*.npy")}
    assert 3 <= len(kept) < 7
    finish(start_python(FACTORISE, tmp_path / "matrix.npy", scratch, solution))
    assert all(path.stat().st_mtime_ns == known for path, known in kept.items())
    expected = np.linalg.solve(matrix + 0.1 * np.eye(200), np.ones(200))
    assert np.allclose(np.load(solution), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["cholesky", "cg", "eigen"])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_every_method_solves_the_system(method: Any, ridge: float) -> None:
    matrix, b = matrix_with_condition(300, 1e3), targets(300)
    found = regress(matrix, b, ridge=ridge, method=method).predictor
    assert np.allclose(found.coefficients, np.linalg.solve(matrix + ridge * np.eye(300), b), rtol=1e-7, atol=1e-7)
    assert found.residual < 1e-10


def test_store_and_array_give_the_same(store: Any) -> None:
    b = targets(150)
    for method in ("cholesky", "cg", "eigen"):
        from_store = regress(store, b, ridge=0.01, method=method).predictor.coefficients
        from_array = regress(store.to_array(), b, ridge=0.01, method=method).predictor.coefficients
        assert np.allclose(from_store, from_array, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
def test_float32_is_refined_to_float64_accuracy(condition: float) -> None:
    matrix, b = matrix_with_condition(400, condition), targets(400)
    found = regress(matrix, b, method="cholesky", dtype="float32").predictor
    assert "float32" in found.method
    assert found.jitter == 0
    residual = np.linalg.norm(b - matrix @ found.coefficients, axis=0) / np.linalg.norm(b, axis=0)
    assert residual.max() < 1e-10
    if condition <= 1e2:
        assert found.iterations <= 3


@pytest.mark.parametrize("condition, chosen", [(1e4, "float32"), (1e12, "float64")])
def test_precision_is_chosen_by_the_condition_number(
    condition: float, chosen: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """From FLOAT32_FROM inputs on; the fallback is said in the log, and the solution is that of float64."""
    matrix = matrix_with_condition(300, condition)
    b = matrix @ targets(300)
    double = regress(matrix, b, method="cholesky", dtype="float64").predictor
    assert "float64" in regress(matrix, b, method="cholesky").predictor.method
    monkeypatch.setattr(regression, "FLOAT32_FROM", 300)
    with caplog.at_level("INFO"):
        found = regress(matrix, b, method="cholesky").predictor
    assert chosen in found.method
    assert ("made in float64" in caplog.text) == (chosen == "float64")
    assert found.residual < 1e-10
    # both solve to 1e-10, which the condition number magnifies
    error = np.linalg.norm(found.coefficients - double.coefficients) / np.linalg.norm(double.coefficients)
    assert error < 2e-10 * condition


def test_float64_takes_over_where_refinement_is_slow(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(regression, "FLOAT32_FROM", 200)
    monkeypatch.setattr(regression, "REFINEMENTS", 1)
    with caplog.at_level("INFO"):
        found = regress(matrix_with_condition(200, 1e5), targets(200), method="cholesky").predictor
    assert "float64" in found.method
    assert "float32 was refined to" in caplog.text


@pytest.mark.parametrize("condition", [10.0, 1e3, 1e5])
def test_the_condition_number_is_estimated_from_the_factor(condition: float) -> None:
    matrix = DenseMatrix(matrix_with_condition(200, condition), True)
    estimate = precision.estimated_condition(matrix, 0.0, factorise(matrix, dtype="float32"))
    assert condition / 5 < estimate < 1.1 * condition


def test_float32_serves_a_matrix_that_is_singular_in_float32() -> None:
    matrix = matrix_with_condition(400, 1e9)
    with pytest.raises(NotPositiveDefinite):
        factorise(DenseMatrix(matrix, True), dtype="float32")
    b = matrix @ targets(400)
    found = regress(matrix, b, method="cholesky", dtype="float32").predictor
    assert found.jitter == 0
    assert np.linalg.norm(b - matrix @ found.coefficients) / np.linalg.norm(b) < 1e-10


@pytest.mark.parametrize("method", ["eigen", "cholesky", "cg"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("inputs_per_iteration", [1, 800])
def test_ridge_path_equals_separate_solves(
    method: Any, dtype: str, inputs_per_iteration: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regression, "INPUTS_PER_ITERATION", inputs_per_iteration)
    matrix, b = matrix_with_condition(200, 1e4), targets(200)
    ridges = [1.0, 1e-4, 1e-3, 0.0, 1e-2]
    path = regress(matrix, b, ridge=ridges, method=method, dtype=dtype).path
    assert [outcome.predictor.ridge for outcome in path] == ridges
    for ridge, outcome in zip(ridges, path, strict=True):
        separate = np.linalg.solve(matrix + ridge * np.eye(200), b)
        assert np.allclose(outcome.predictor.coefficients, separate, rtol=1e-5, atol=1e-5 * np.abs(separate).max())
        assert outcome.predictor.residual < 1e-10


def test_near_ridges_share_a_factor_where_that_is_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, ridges = matrix_with_condition(200, 1e2), [0.1, 0.2, 0.4]

    def shared() -> Any:
        path = regress(matrix, targets(200), ridge=ridges, method="cholesky").path
        return ["smaller ridge" in outcome.predictor.method for outcome in path]

    assert shared() == [False, False, False]
    monkeypatch.setattr(regression, "INPUTS_PER_ITERATION", 1)
    assert shared() == [False, True, True]


def test_a_long_path_on_a_small_matrix_takes_eigenvectors() -> None:
    path = regress(matrix_with_condition(60, 1e2), targets(60), ridge=np.geomspace(1e-3, 1, 20)).path  # type: ignore[arg-type]
    assert {outcome.predictor.method for outcome in path} == {"eigenvectors"}


def test_pivoted_cholesky_leaves_its_own_diagonal() -> None:
    matrix = gaussian(inputs(80))
    factor, remaining = pivoted_cholesky(DenseMatrix(matrix, True), 30)
    left = matrix - factor @ factor.T
    assert np.allclose(np.diagonal(left), remaining, rtol=0, atol=1e-12)
    assert np.linalg.eigvalsh(left).min() > -1e-12
    assert remaining.sum() < 0.5 * np.trace(matrix)


def test_preconditioner_saves_iterations() -> None:
    matrix = DenseMatrix(gaussian(inputs(400)), True)
    b = targets(400)
    plain = conjugate_gradient(matrix, b, 1e-3, lambda r: r)
    good = conjugate_gradient(matrix, b, 1e-3, low_rank_preconditioner(*pivoted_cholesky(matrix, 150), 1e-3))
    assert good.reached(1e-10)
    assert plain.reached(1e-10)
    assert good.iterations < plain.iterations / 3


def test_zero_targets_have_zero_coefficients() -> None:
    for method in ("cholesky", "cg", "eigen"):
        b = np.column_stack([np.zeros(50), np.ones(50)])
        found = regress(matrix_with_condition(50, 10), b, method=method).predictor.coefficients
        assert np.array_equal(found[:, 0], np.zeros(50))
        assert np.isfinite(found).all()


def test_learns_a_separable_problem(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    centres = 3 * random.normal(size=(4, 5))
    labels, test_labels = random.integers(0, 4, 120), random.integers(0, 4, 60)
    x, test_x = (centres[y] + random.normal(size=(len(y), 5)) for y in (labels, test_labels))
    fit = regress(gaussian(x), labels, gaussian(test_x, x), test_labels, ridge=1e-3)
    assert fit.accuracy > 0.9  # type: ignore[operator]
    assert np.array_equal(fit.predictions, fit.scores.argmax(axis=1))  # type: ignore[arg-type, union-attr]
    assert fit.predictor.accuracy(gaussian(x), labels) == 1.0
    path = regress(gaussian(x), labels, gaussian(test_x, x), test_labels, ridge=[1e-3, 1e3])
    assert path.best.accuracy == max(outcome.accuracy for outcome in path.path)  # type: ignore[type-var]
    with pytest.raises(TangentbenchError, match="path of 2"):
        path.accuracy  # noqa: B018


def test_predictor_survives_saving(store: Any, test_store: Any, tmp_path: Path) -> None:
    fit = regress(store, np.arange(150) % 10, test_store, ridge=0.01)
    fit.predictor.save(tmp_path / "fit.v1")
    again = Predictor.load(tmp_path / "fit.v1")
    assert np.array_equal(again.scores(test_store), fit.scores)  # type: ignore[arg-type]
    assert {**again.__dict__, "coefficients": 0} == {**fit.predictor.__dict__, "coefficients": 0}
    content = bytearray((tmp_path / "fit.v1.npz").read_bytes())
    content[400] ^= 1
    (tmp_path / "fit.v1.npz").write_bytes(content)
    with pytest.raises(ResultUnreadable, match="checksum"):
        Predictor.load(tmp_path / "fit.v1")
    with pytest.raises(ResultUnreadable):
        Predictor.load(tmp_path / "nothing")


def test_predictor_refuses_other_stores(store: Any, test_store: Any, tmp_path: Path) -> None:
    predictor = regress(store, targets(150), ridge=0.01).predictor
    x1, x2 = inputs(4, shape=(20,)), inputs(150, shape=(20,))
    other_data = Gram.create(tmp_path / "data", x1, x2 + 1, kernel=SETTINGS)
    with pytest.raises(StoreMismatch, match="other inputs"):
        predictor.scores(other_data)
    other_kernel = Gram.create(tmp_path / "kernel", x1, x2, kernel={**SETTINGS, "scale": 1})
    with pytest.raises(StoreMismatch, match="scale"):
        predictor.scores(other_kernel)
    with pytest.raises(UnfitArray, match="149 columns"):
        predictor.scores(np.ones((3, 149)))
    with pytest.raises(UnfitArray, match="symmetric"):
        regress(test_store, targets(40))


@pytest.mark.parametrize("method", ["cholesky", "eigen"])
def test_a_singular_matrix_is_named_with_its_pivot(method: Any) -> None:
    x = inputs(60, shape=(8,))
    x[41] = x[7]
    matrix = gaussian(x)
    with pytest.raises(NotPositiveDefinite, match="numerically singular") as caught:
        regress(matrix, targets(60), method=method)
    assert abs(caught.value.smallest) < 1e-14
    if method == "cholesky":
        assert "input 41" in str(caught.value)
    with pytest.warns(UserWarning, match="added to its diagonal"):
        found = regress(matrix, targets(60), method=method, jitter="auto", tolerance=1e-4).predictor
    assert 0 < found.jitter < 1e-8
    assert regress(matrix, targets(60), method=method, ridge=0.1, jitter="auto").predictor.jitter == 0


def test_an_indefinite_matrix_is_refused() -> None:
    matrix = matrix_with_condition(50, 10)
    matrix -= 0.3 * np.eye(50)
    for method in ("cholesky", "cg", "eigen"):
        with pytest.raises(NotPositiveDefinite):
            regress(matrix, targets(50), method=method)
    with pytest.raises(NotPositiveDefinite):
        regress(matrix, targets(50), method="cholesky", dtype="float32")


def test_a_residual_above_the_tolerance_is_said() -> None:
    with pytest.warns(UserWarning, match="relative residual"):
        regress(matrix_with_condition(200, 1e6), targets(200), method="cg", max_iterations=3)


def test_unfit_arguments_are_refused() -> None:
    matrix, b = matrix_with_condition(20, 10), targets(20)
    lopsided = matrix.copy()
    lopsided[3, 4] += 1
    holed = matrix.copy()
    holed[2, 2] = np.nan
    for arguments, sentence in [
        ((matrix[:10], b), "square"),
        ((lopsided, b), "not symmetric"),
        ((holed, b), "not finite"),
        ((matrix, b[:10]), "one row each"),
        ((matrix, np.full(20, np.nan)), "finite"),
        ((matrix.astype(int), b), "floating-point"),
    ]:
        with pytest.raises(UnfitArray, match=sentence):
            regress(*arguments)
    with pytest.raises(UnfitArray, match="at least 0"):
        regress(matrix, b, ridge=-1)
    with pytest.raises(UnfitArray, match="float16"):
        regress(matrix, b, dtype="float16")
    with pytest.raises(UnknownName, match="did you mean cholesky"):
        regress(matrix, b, method="cholesk")  # type: ignore[arg-type]


def test_too_little_memory_is_said_before_work_starts() -> None:
    with pytest.raises(TooLittleMemory, match="scratch folder"):
        regress(matrix_with_condition(400, 10), targets(400), memory_limit=2e5, method="cholesky")


def test_precision_and_place_follow_the_memory(store: Any) -> None:
    b = targets(150)
    single, double = (factor_memory(150, dtype, 64)[0] for dtype in ("float32", "float64"))
    for limit, method in [(double, "float64,"), (single, "float32,"), (single - 1, "float64 on disk,")]:
        found = regress(store, b, ridge=0.01, method="cholesky", memory_limit=limit).predictor
        assert method in found.method
        assert found.residual < 1e-10
    assert not (store.folder / "factor").exists()


def test_a_scratch_folder_keeps_the_factor(store: Any, tmp_path: Path) -> None:
    first = regress(store, targets(150), ridge=0.01, scratch=tmp_path / "scratch").predictor
    panels = {path: path.stat().st_mtime_ns for path in (tmp_path / "scratch").rglob("panel-*.npy")}
    assert "on disk" in first.method
    assert panels
    again = regress(store, targets(150, seed=2), ridge=0.01, scratch=tmp_path / "scratch").predictor
    assert again.residual < 1e-10
    assert all(path.stat().st_mtime_ns == known for path, known in panels.items())


def test_memory_stays_under_the_limit(tmp_path: Path) -> None:
    code = """
import sys
import numpy as np
from gaussian import SETTINGS, gaussian, inputs, peak_bytes
from tangentbench.solvers.regression import regress
from tangentbench.gram.store import Gram
count, limit = 2500, 24e6
small = Gram.create(sys.argv[1] + "/small", inputs(300, shape=(4,)), kernel=SETTINGS, tile=128)
small.compute(gaussian)
regress(small, np.ones((300, 2)), ridge=1.0, memory_limit=1e6)
gram = Gram.create(sys.argv[1] + "/gram", inputs(count, shape=(4,)), kernel=SETTINGS, tile=128)
gram.compute(gaussian)
before = peak_bytes()
fit = regress(gram, np.ones((count, 2)), ridge=1.0, memory_limit=limit)
print(peak_bytes() - before, limit, fit.predictor.method)
"""
    used, limit, method = finish(start_python(code, tmp_path)).split(maxsplit=2)
    assert "float32" in method
    assert float(used) < float(limit) < 2500**2 * 4


def test_the_conjugate_gradient_refuses_a_zero_matrix() -> None:
    zero, b = np.zeros((20, 20)), targets(20)
    with pytest.raises(NotPositiveDefinite, match="largest diagonal entry is 0"):
        regress(zero, b, method="cg")
    with pytest.raises(NotPositiveDefinite):
        regress(zero, b, method="cg", jitter="auto")
    found = regress(zero, b, ridge=2.0, method="cg").predictor
    np.testing.assert_allclose(found.coefficients, b / 2)


def test_labels_that_are_no_class_numbers_are_refused() -> None:
    with pytest.raises(TooLittleMemory, match="coding of 100000000000001 classes"):
        code_labels(np.array([0, 10**14]))
