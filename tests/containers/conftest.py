"""The image, built once for all tests that run it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from image_engine import COMMIT, STORE_VARIABLE, Engine

from tangentbench import __version__


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    kept = os.environ.get(STORE_VARIABLE)
    built = Engine(Path(kept) if kept else tmp_path_factory.mktemp("images"))
    built.prepare()
    built.make_base()
    built.build(VERSION=__version__, COMMIT=COMMIT)
    yield built
    if not kept:
        built.remove()
