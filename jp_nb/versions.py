"""The versions of the packages that matter here."""

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
    """Names and versions; `-` for what is not installed."""
    found = [f"Python {sys.version.split()[0]}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} -")
    return found
