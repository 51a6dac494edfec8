"""What a certificate says is true of the matrix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gaussian import SETTINGS, finish, gaussian, inputs, start_python

from tangentbench.errors import TangentbenchError, TooLittleMemory
from tangentbench.gram import certificate
from tangentbench.gram.certificate import certify, read_certificate
from tangentbench.gram.lanczos import extremes
from tangentbench.gram.store import Gram
from tangentbench.solvers.cholesky import factorise


@pytest.fixture
def gram(tmp_path: Path) -> Any:
    store = Gram.create(tmp_path / "gram", inputs(90, shape=(12,)), kernel=SETTINGS, tile=32, dtype="float64")
    store.compute(gaussian)
    return store


@pytest.fixture
def above_the_dense_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "DENSE_LIMIT", 10)


def test_spectrum_of_a_small_matrix(gram: Any) -> None:
    values = np.linalg.eigvalsh(gram.to_array())
    found = certify(gram)["spectrum"]
    assert np.isclose(found["smallest_eigenvalue"], values[0], rtol=1e-10)
    assert np.isclose(found["largest_eigenvalue"], values[-1], rtol=1e-12)
    assert np.isclose(found["condition_number"], values[-1] / values[0], rtol=1e-10)


def test_spectrum_by_lanczos_keeps_its_bounds(gram: Any, above_the_dense_limit: Any) -> None:
    values = np.linalg.eigvalsh(gram.to_array())
    found = certify(gram)["spectrum"]
    assert "Lanczos" in found["method"]
    assert np.isclose(found["largest_eigenvalue"], values[-1], rtol=1e-12)
    assert found["smallest_eigenvalue"] >= values[0] - 1e-12
    assert np.abs(values - found["smallest_eigenvalue"]).min() <= found["smallest_residual"] + 1e-13


@pytest.mark.parametrize(("dtype", "ridge"), [("float64", 0.0), ("float64", 0.01), ("float32", 0.0)])
def test_spectrum_through_a_factor(gram: Any, above_the_dense_limit: Any, dtype: str, ridge: float) -> None:
    values = np.linalg.eigvalsh(gram.to_array())
    found = certify(gram, factor=factorise(gram, ridge, dtype=dtype))["spectrum"]
    assert "Cholesky" in found["method"]
    assert np.isclose(found["smallest_eigenvalue"], values[0], rtol=1e-6)


def test_few_lanczos_steps_stay_inside_the_spectrum() -> None:
    random = np.random.default_rng(0)
    q, _ = np.linalg.qr(random.normal(size=(200, 200)))
    values = np.geomspace(1e-4, 1, 200)
    matrix = (q * values) @ q.T
    low, high = extremes(lambda v: matrix @ v, 200, steps=20)
    assert values[0] < low.value < high.value <= values[-1]
    for pair in (low, high):
        assert np.abs(values - pair.value).min() <= pair.residual
    low, high = extremes(lambda v: matrix @ v, 200)
    assert np.isclose(low.value, values[0], rtol=1e-6)
    assert np.isclose(high.value, values[-1], rtol=1e-12)


def test_lanczos_stops_when_the_space_is_used_up() -> None:
    low, high = extremes(lambda v: 2.0 * v, 50)
    assert (low.value, high.value) == (pytest.approx(2.0), pytest.approx(2.0))  # type: ignore[comparison-overlap]


def test_agreement_and_asymmetry_are_measured(gram: Any) -> None:
    def crooked(x1: Any, x2: Any = None) -> Any:
        return gaussian(x1, x2) + 1e-3 * x1.reshape(len(x1), -1)[:, :1]

    exact = certify(gram, gaussian, lambda x1, x2: gaussian(x1, x2) + 1e-5, entries=100)
    assert exact["asymmetry"]["largest_difference"] == 0
    assert exact["reproduced"] == {"entries": 100, "largest_difference": 0, "relative_to_largest_entry": 0}
    assert np.isclose(exact["second_backend"]["largest_difference"], 1e-5, rtol=1e-6)
    assert certify(gram, crooked)["asymmetry"]["largest_difference"] > 1e-4


def test_a_rectangle_has_no_spectrum(tmp_path: Path) -> None:
    gram = Gram.create(tmp_path, inputs(9), inputs(7, seed=1), kernel=SETTINGS, tile=4)
    gram.compute(gaussian)
    found = certify(gram, gaussian, gaussian)
    assert found["spectrum"] is None
    assert found["asymmetry"] is None
    assert found["second_backend"]["largest_difference"] < 1e-7


def test_certificate_lies_beside_the_store_until_it_grows(gram: Any) -> None:
    certify(gram, gaussian)
    stored = json.loads((gram.folder / "certificate.json").read_text())
    assert stored == read_certificate(gram)
    assert stored["kernel"] == SETTINGS
    assert stored["inputs_sha256"]["rows"] == gram.row_inputs.sha256
    assert stored["precision"] == "float64"
    assert stored["versions"]["numpy"] == np.__version__
    assert stored["seconds"] > 0
    assert read_certificate(gram.extend(inputs(100, shape=(12,)))) is None


def test_sample_needs_the_inputs(gram: Any) -> None:
    with pytest.raises(TangentbenchError, match="needs the inputs"):
        certify(Gram.open(gram.folder), gaussian)


def test_too_little_memory_is_said(gram: Any) -> None:
    with pytest.raises(TooLittleMemory, match="Lanczos"):
        certify(gram, memory_limit=1e4)


def test_memory_stays_under_the_limit(tmp_path: Path) -> None:
    code = """
import sys
from gaussian import SETTINGS, gaussian, inputs, peak_bytes
from tangentbench.gram.certificate import certify
from tangentbench.gram.store import Gram
for count in (300, 1500):
    gram = Gram.create(f"{sys.argv[1]}/{count}", inputs(count, shape=(2,)), kernel=SETTINGS, tile=128)
    gram.compute(gaussian)
    before = peak_bytes()
    found = certify(gram, gaussian, memory_limit=3e6)
print(peak_bytes() - before, found["spectrum"]["method"])
"""
    used, method = finish(start_python(code, tmp_path)).split(maxsplit=1)
    assert "Lanczos" in method
    assert float(used) < 3e6


@pytest.mark.parametrize(
    "smallest, verdict",
    [
        (1e-2, "positive definite"),
        (0.0, "indefinite within rounding"),
        (-1e-6, "indefinite within rounding"),
        (-1e-2, "not positive definite"),
    ],
)
def test_the_smallest_eigenvalue_is_compared_with_rounding(tmp_path: Path, smallest: float, verdict: str) -> None:
    """In float32 and with 60 rows, 60 eps = 7e-6 of the diagonal is rounding."""
    q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(60, 60)))
    values = np.linspace(0.5, 1.5, 60)
    values[0] = smallest
    matrix = (q * values) @ q.T
    store = Gram.create(tmp_path / "gram", np.arange(60.0)[:, None], kernel=SETTINGS)
    store.compute(lambda x1, x2: matrix)
    found = certify(store)["spectrum"]
    assert found["verdict"] == verdict
    assert np.isclose(found["rounding_noise"], 60 * np.finfo(np.float32).eps * matrix.diagonal().max(), rtol=1e-5)


def test_an_upper_bound_alone_proves_no_positive_definiteness(gram: Any, above_the_dense_limit: Any) -> None:
    assert certify(gram)["spectrum"]["verdict"] == "no sign of indefiniteness"
    assert certify(gram, factor=factorise(gram))["spectrum"]["verdict"] == "positive definite"
