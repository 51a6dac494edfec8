"""A core that lies elsewhere than beside the sources: the container image's, named by TANGENTBENCH_CORE."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from tangentbench.kernels._backends import native

needs_core = pytest.mark.skipif(not native.available(), reason="the native core was not built")
OWN = native.LIBRARY


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No core beside the sources, and none remembered."""
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "_cntk_core.so")
    native.load.cache_clear()
    yield
    native.load.cache_clear()


def test_without_any_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.LIBRARY_VARIABLE, raising=False)
    assert not native.available()
    assert "was not built" in native.describe()["reason"]


@needs_core
def test_the_named_one_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.LIBRARY_VARIABLE, str(OWN))
    assert native.describe()["library"] == str(OWN)


@needs_core
def test_one_with_other_requests_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Longer(ctypes.Structure):
        _fields_ = [*native.CntkRequest._fields_, ("more", ctypes.c_int)]

    monkeypatch.setenv(native.LIBRARY_VARIABLE, str(OWN))
    monkeypatch.setattr(native, "CntkRequest", Longer)
    assert "another version" in native.describe()["reason"]
