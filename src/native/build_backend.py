"""scikit-build-core, except that a machine without CMake or a build tool still gets the package.

A compiler that fails is handled by the `if.failed` override in pyproject.toml; tools that are not there at all end
scikit-build-core before that, so it is asked again here for the package without its native core.
"""

from __future__ import annotations

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


def build_editable(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    try:
        return build.build_editable(wheel_directory, config_settings, metadata_directory)
    except ScikitBuildError as error:
        return build.build_editable(wheel_directory, without_native_core(config_settings, error), metadata_directory)


def without_native_core(config_settings: Settings, error: ScikitBuildError) -> dict[str, Any]:
    print(f"the native core is left out: {error}")
    return {**(config_settings or {}), "wheel.cmake": "false"}
