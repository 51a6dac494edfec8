from __future__ import annotations

from pathlib import Path

import pytest
from tiny_project import TinyProject


@pytest.fixture
def tiny(tmp_path: Path) -> TinyProject:
    """Two studies in the catalogue, nothing built."""
    return TinyProject.create(tmp_path / "project")


@pytest.fixture
def built(tiny: TinyProject) -> TinyProject:
    """The same with alpha_fig1 built at scale quick."""
    tiny.build()
    return tiny
