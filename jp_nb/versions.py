"""Versions of installed packages."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    "jp-nb",
    "ipykernel",
    "ipython",
    "ipywidgets",
    "anywidget",
    "pydantic",
    "httpx",
    "jupyterlab",
)


def list_versions() -> list[str]:
    """Return names and versions of Python and the packages; `-` if one is not installed."""
    versions = [f"Python {sys.version.split()[0]}"]
    for name in PACKAGES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} -")
    return versions
