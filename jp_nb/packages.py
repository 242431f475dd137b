"""Versions of the installed packages."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Final

PACKAGES = (
    "jp-nb",
    "ipykernel",
    "ipython",
    "ipywidgets",
    "anywidget",
    "pydantic",
    "httpx",
    "httpx2",
    "jupyterlab",
    "mcp",
)
_OPTIONAL: Final = ("httpx2", "mcp")  # `httpx2` replaces `httpx` if it is installed


def list_versions() -> list[str]:
    """Return names and versions of Python and the packages; `-` if a required one is missing."""
    versions = [f"Python {sys.version.split()[0]}"]

    for name in PACKAGES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            if name not in _OPTIONAL:
                versions.append(f"{name} -")

    return versions
