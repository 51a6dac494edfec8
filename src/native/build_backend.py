"""scikit-build-core, except that a machine without CMake or a build tool still gets the package.

An editable install is a plain path: scikit-build-core adds an import hook that comes before PYTHONPATH and so hides
every other checkout from the tests run in it; it is taken out again.

A compiler that fails is handled by the `if.failed` override in pyproject.toml; tools that are not there at all end
scikit-build-core before that, so it is asked again here for the package without its native core.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path
from typing import Any

from scikit_build_core import build
from scikit_build_core.build import (  # noqa: F401 - hooks of the build backend
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)
from scikit_build_core.errors import ScikitBuildError

Settings = dict[str, Any] | None


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    try:
        return build.build_wheel(wheel_directory, config_settings, metadata_directory)
    except ScikitBuildError as error:
        return build.build_wheel(wheel_directory, without_native_core(config_settings, error), metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    try:
        name = build.build_editable(wheel_directory, config_settings, metadata_directory)
    except ScikitBuildError as error:
        name = build.build_editable(wheel_directory, without_native_core(config_settings, error), metadata_directory)
    remove_import_hook(Path(wheel_directory) / name)
    return name


def without_native_core(config_settings: Settings, error: ScikitBuildError) -> dict[str, Any]:
    print(f"the native core is left out: {error}")
    return {**(config_settings or {}), "wheel.cmake": "false"}


def remove_import_hook(wheel: Path) -> None:
    """Rewrite an editable wheel so that its .pth file holds nothing but folders."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    for name in [name for name in files if name.endswith(".pth")]:
        lines = files[name].decode().splitlines()
        hooks = [line.removeprefix("import ").strip() for line in lines if line.startswith("import ")]
        files[name] = "".join(f"{line}\n" for line in lines if not line.startswith("import ")).encode()
        for hook in hooks:
            files.pop(f"{hook}.py", None)
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    rows = [f"{name},sha256={digest(data)},{len(data)}" for name, data in files.items() if name != record]
    files[record] = "\n".join([*rows, f"{record},,", ""]).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
