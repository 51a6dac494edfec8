"""The real MNIST, Fashion-MNIST and CIFAR-10, where a mirror holds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tangentbench.datasets import Dataset
from tangentbench.datasets.prepare import availability
from tangentbench.datasets.prepare.pipeline import prepare
from tangentbench.paths import Paths


def made(name: str, checkout: Paths, mirror: Path) -> Dataset:
    return prepare(name, checkout, mirror, seed=0, progress=False)


def test_mnist(checkout: Paths, shared_data: Path) -> None:
    mnist = made("mnist", checkout, shared_data)
    assert mnist.x_train.shape == (60000, 28, 28, 1)
    counts = mnist.class_counts()
    assert list(counts["train"].values()) == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert list(counts["test"].values()) == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert mnist.x_train.mean(dtype=float) == pytest.approx(0.1307, abs=5e-5)
    assert mnist.x_train.std(dtype=float) == pytest.approx(0.3081, abs=5e-5)


def test_fashion_mnist(checkout: Paths, shared_data: Path) -> None:
    fashion = made("fashion_mnist", checkout, shared_data)
    assert set(fashion.class_counts()["train"].values()) == {6000}
    assert fashion.x_train.mean(dtype=float) == pytest.approx(0.2860, abs=5e-5)


def test_cifar10(checkout: Paths, shared_data: Path) -> None:
    cifar = made("cifar10", checkout, shared_data)
    assert cifar.x_train.shape == (50000, 32, 32, 3)
    assert set(cifar.class_counts()["train"].values()) == {5000}
    assert set(cifar.class_counts()["test"].values()) == {1000}
    mean = cifar.x_train.mean(axis=(0, 1, 2), dtype=float)
    np.testing.assert_allclose(mean, [0.49139968, 0.48215841, 0.44653091], atol=1e-6)


def test_whitened_binary_mnist(checkout: Paths, shared_data: Path) -> None:
    """Thesis section 6.3: X X^T / m of the whitened training inputs is the identity."""
    binary = made("mnist_binary_7x7", checkout, shared_data)
    assert binary.x_train.shape == (60000, 49)
    assert binary.classes == ("0-4", "5-9")
    assert np.bincount(binary.y_train).tolist() == [30596, 29404]
    x = binary.x_train.astype(float)
    np.testing.assert_allclose(x.T @ x / len(x), np.eye(49), atol=1e-4)


def test_a_mirror_is_seen(checkout: Paths, shared_data: Path) -> None:
    states = {record.name: record.state for record in availability(checkout, shared_data)}
    assert [states[name] for name in ("mnist", "fashion_mnist", "cifar10")] == ["in mirror"] * 3
