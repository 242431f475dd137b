"""Installed packages: their versions, and import of `jsonschema` without slow parsers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import ModuleType
from typing import Final

PARSERS: Final = "rfc3987_syntax"
"""Package that JupyterLab installs. `jsonschema` checks the format `iri` with it.

Its import builds about forty parsers, as much work as the rest of `jp-nb run` for a short notebook.

Source: https://github.com/python-jsonschema/jsonschema/blob/main/jsonschema/_format.py
"""
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


@contextmanager
def delay_parsers() -> Iterator[None]:
    """Delay the import of the parsers until `jsonschema`, imported in this context, uses them.

    The results of validation are the same.
    """
    if {"jsonschema", PARSERS} & sys.modules.keys() or find_spec(PARSERS) is None:
        yield
        return

    module = ModuleType(PARSERS)
    vars(module)["is_valid_syntax"] = _is_valid_syntax
    sys.modules[PARSERS] = module

    try:
        yield
    finally:
        del sys.modules[PARSERS]


def _is_valid_syntax(term: str, value: str) -> bool:
    from rfc3987_syntax import is_valid_syntax

    return bool(is_valid_syntax(term, value))
