"""Which device torch computes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from tangentbench import device
from tangentbench.cli.doctor import compute
from tangentbench.device import DEVICE_VARIABLE, NoSuchDevice, choose, current, on_gpu
from tangentbench.kernels._backends import native, triton
from tangentbench.studies.registry import Context


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (DEVICE_VARIABLE, "JAX_PLATFORMS", "XLA_PYTHON_CLIENT_PREALLOCATE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Pretend that torch sees this many."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


@pytest.mark.parametrize(
    ("name", "count", "means"),
    [
        ("auto", 0, "cpu"),
        ("auto", 2, "cuda:0"),
        ("cpu", 2, "cpu"),
        ("cuda", 2, "cuda:0"),
        ("cuda:1", 2, "cuda:1"),
    ],
)
def test_names(name: str, count: int, means: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, count)
    choose(name)
    assert current() == torch.device(means)
    assert Context(seed=0).device == torch.device(means)


@pytest.mark.parametrize(
    ("name", "count", "words"),
    [("cuda", 0, "device: auto"), ("cuda:2", 2, "there are 2"), ("gpu", 2, "cuda:N"), ("cuda:x", 2, "cuda:N")],
)
def test_mistakes_have_a_sentence(name: str, count: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, count)
    with pytest.raises(NoSuchDevice, match=words):
        choose(name)
        current()


@pytest.mark.parametrize(("name", "backend"), [("auto", "triton"), ("cpu", "native"), ("cuda:7", "native")])
def test_doctor_names_the_backend_of_the_device_that_is_set(
    name: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(monkeypatch, 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a GPU")
    monkeypatch.setattr(triton, "installed", lambda: True)
    monkeypatch.setattr(native, "available", lambda: True)
    assert compute(name)["CNTK backend"] == backend


def test_nothing_chosen_is_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, 1)
    assert current() == torch.device("cuda:0")


def test_a_gpu_is_used_where_the_driver_is_and_the_device_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gpus(monkeypatch, 1)
    monkeypatch.setattr(device, "NVIDIA_DRIVER", tmp_path / "missing")
    assert not on_gpu()
    monkeypatch.setattr(device, "NVIDIA_DRIVER", tmp_path)
    assert on_gpu()
    choose("cpu")
    assert not on_gpu()


def test_float32_means_float32() -> None:
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.matmul.allow_tf32 = True
    current()
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cudnn.deterministic


def test_jax_follows_to_the_cpu_and_leaves_memory_to_torch() -> None:
    choose("cpu")
    assert os.environ["JAX_PLATFORMS"] == "cpu"
    assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
