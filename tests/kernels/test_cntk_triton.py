"""The Triton kernel, interpreted on the CPU against the native core, and compiled for real GPUs without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from images import TOLERANCE, images, relative_error

from tangentbench.errors import TangentbenchError
from tangentbench.kernels import cntk, recursion_triton
from tangentbench.kernels.cntk import chosen_backend

needs_triton = pytest.mark.skipif(
    not recursion_triton.installed(), reason="Triton is not installed (pip install triton; .ci/run does)"
)


@pytest.fixture
def interpreter(monkeypatch):
    """Triton reads the variable when the kernel's file is imported."""
    monkeypatch.setenv(recursion_triton.INTERPRET_VARIABLE, "1")
    forget_kernel(monkeypatch)
    yield
    forget_kernel(monkeypatch)


def forget_kernel(monkeypatch) -> None:
    recursion_triton.plane_kernel.cache_clear()
    monkeypatch.delitem(sys.modules, "tangentbench.kernels.plane_triton", raising=False)


@needs_triton
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("depth", "pooling", "kind", "trained", "size", "filter"),
    [
        (4, "gap", "ntk", False, (4, 3), 3),
        (3, "gap", "ntk", True, (3, 5), 3),
        (3, "gap", "nngp", None, (2, 3), 5),
        (2, "gap", "ntk", False, (2, 2), 3),
        (11, "flatten", "ntk", True, (8, 7), 3),
        (21, "flatten", "nngp", None, (5, 4), 3),
        (4, "flatten", "ntk", True, (1, 1), 3),
    ],
)
def test_interpreted_kernel_agrees_with_the_core(interpreter, depth, pooling, kind, trained, size, filter, dtype):
    first, second = images(1, *size), images(2, *size, seed=1)
    expected = cntk(first, second, depth, pooling, kind, trained, filter)
    value = cntk(first, second, depth, pooling, kind, trained, filter, dtype=dtype, backend="triton")
    assert relative_error(value, expected) < TOLERANCE[dtype]


@needs_triton
def test_symmetric_matrix_takes_half_the_programs_and_equals_the_whole(interpreter, monkeypatch):
    batch = images(3, 4, 4)
    whole = cntk(batch, batch, 4, "flatten", backend="triton")
    pairs = []
    real = recursion_triton.pair_sums
    monkeypatch.setattr(
        recursion_triton, "pair_sums", lambda a, b, rows, *rest: (pairs.append(len(rows)), real(a, b, rows, *rest))[1]
    )
    half = cntk(batch, depth=4, pooling="flatten", backend="triton")
    assert pairs == [6]
    np.testing.assert_allclose(half, whole, rtol=1e-12)


@needs_triton
def test_identical_constant_and_empty_images_are_exact(interpreter):
    batch = np.stack([np.zeros((3, 4, 1)), np.ones((3, 4, 1)), np.ones((3, 4, 1))])
    value = cntk(batch, depth=6, pooling="flatten", backend="triton")
    assert relative_error(value, cntk(batch, depth=6, pooling="flatten")) < 1e-12
    assert (value[0] == 0).all()


@needs_triton
def test_launches_cut_the_pairs_without_changing_the_matrix(interpreter, monkeypatch):
    first, second = images(2, 3, 3), images(3, 3, 3, seed=1)
    whole = cntk(first, second, 3, "gap", backend="triton")
    monkeypatch.setattr(recursion_triton, "PARTIAL_BYTES", 8 * 9 * 4)
    np.testing.assert_array_equal(cntk(first, second, 3, "gap", backend="triton"), whole)


def test_polynomial_of_the_angle_is_exact_to_rounding():
    u = np.linspace(0, 1, 1001)[1:]
    exact = np.array([float(mpmath.acos(1 - x) / mpmath.sqrt(x * (2 - x))) for x in u])
    for dtype, tolerance in ((torch.float32, 1e-7), (torch.float64, 1e-15)):
        fitted = np.polynomial.polynomial.polyval(u, recursion_triton.coefficients(dtype).double().numpy())
        assert np.abs(fitted / exact - 1).max() < tolerance
        assert recursion_triton.coefficients(dtype)[0] == 1


@needs_triton
@pytest.mark.parametrize("capability", [80, 90])
def test_kernel_compiles_for_gpus_and_keeps_its_plane_in_registers(capability, tmp_path):
    script = Path(__file__).with_name("compiled_plane.py")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), recursion_triton.INTERPRET_VARIABLE: "0"}
    call = [sys.executable, script, str(capability), tmp_path]
    done = subprocess.run(call, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "STACK:0 " in done.stdout, done.stdout


def test_auto_takes_triton_on_a_gpu_and_torch_for_images_too_large_for_it(monkeypatch):
    monkeypatch.setattr(sys.modules[chosen_backend.__module__], "on_gpu", lambda: True)
    monkeypatch.setattr(recursion_triton, "installed", lambda: True)
    assert chosen_backend("auto", (32, 32)) == "triton"
    assert chosen_backend("auto", (96, 96)) == "torch"
    monkeypatch.setattr(recursion_triton, "installed", lambda: False)
    assert chosen_backend("auto", (32, 32)) == "torch"


def test_without_a_gpu_the_reason_is_said(monkeypatch):
    monkeypatch.delenv(recursion_triton.INTERPRET_VARIABLE, raising=False)
    monkeypatch.setattr(recursion_triton, "installed", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(TangentbenchError, match="no CUDA device"):
        cntk(images(1), depth=3, backend="triton")


@needs_triton
def test_images_too_large_for_registers_are_refused(interpreter):
    with pytest.raises(TangentbenchError, match="100 x 100"):
        cntk(images(1, 100, 100, 1), depth=3, pooling="flatten", backend="triton")
