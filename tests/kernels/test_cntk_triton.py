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
from images import images

from tangentbench.errors import TangentbenchError
from tangentbench.kernels import choice, cntk
from tangentbench.kernels._backends import triton
from tangentbench.kernels.architectures import myrtle, vanilla
from tangentbench.kernels.network import Network, parts

needs_triton = pytest.mark.skipif(
    not triton.installed(), reason="Triton is not installed (pip install triton; .ci/run does)"
)


@needs_triton
def test_interpreted_kernel_agrees_with_the_core() -> None:
    here = Path(__file__)
    environment = {**os.environ, triton.INTERPRET_VARIABLE: "1"}
    call = [sys.executable, "-m", "pytest", "-q", here.with_name("interpreted_triton.py"), "-p", "no:cacheprovider"]
    done = subprocess.run(call, cwd=here.parents[2], env=environment, capture_output=True, text=True)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert "passed" in done.stdout


def test_polynomial_of_the_angle_is_exact_to_rounding() -> None:
    u = np.linspace(0, 1, 1001)[1:]
    exact = np.array([float(mpmath.acos(1 - x) / mpmath.sqrt(x * (2 - x))) for x in u])
    for dtype, tolerance in ((torch.float32, 1e-7), (torch.float64, 1e-15)):
        fitted = np.polynomial.polynomial.polyval(u, triton.coefficients(dtype).double().numpy())
        assert np.abs(fitted / exact - 1).max() < tolerance
        assert triton.coefficients(dtype)[0] == 1


@needs_triton
@pytest.mark.parametrize("capability", [80, 90])
def test_kernel_compiles_for_gpus_and_keeps_its_plane_in_registers(capability: int, tmp_path: Path) -> None:
    script = Path(__file__).with_name("compiled_plane.py")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), triton.INTERPRET_VARIABLE: "0"}
    call = [sys.executable, script, str(capability), tmp_path]
    done = subprocess.run(call, env=environment, capture_output=True, text=True)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    assert "STACK:0 " in done.stdout, done.stdout


def test_auto_takes_triton_on_a_gpu_and_torch_for_what_it_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(network: Network, size: tuple[int, int]) -> str:
        trunk, gather, _ = parts(network)
        return choice.chosen_backend("auto", trunk, gather, size)

    monkeypatch.setattr(choice, "on_gpu", lambda: True)
    monkeypatch.setattr(triton, "installed", lambda: True)
    assert chosen(vanilla(3), (32, 32)) == "triton"
    assert chosen(vanilla(3), (96, 96)) == "torch"
    assert chosen(myrtle(), (32, 32)) == "torch"
    monkeypatch.setattr(triton, "installed", lambda: False)
    assert chosen(vanilla(3), (32, 32)) == "torch"


def test_without_a_gpu_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(triton.INTERPRET_VARIABLE, raising=False)
    monkeypatch.setattr(triton, "installed", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(TangentbenchError, match="no CUDA device"):
        cntk(images(1), depth=3, backend="triton")
