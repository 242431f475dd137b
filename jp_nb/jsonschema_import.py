"""Lets `jsonschema` be imported without parsers that it hardly ever needs.

With JupyterLab comes `rfc3987_syntax`, which checks the format `iri`. Importing it builds some
forty parsers: as much work as all else that `jp-nb run` does for a short notebook.

Source: https://github.com/python-jsonschema/jsonschema/blob/main/jsonschema/_format.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Final

PARSERS: Final = "rfc3987_syntax"


@contextmanager
def without_parsers() -> Iterator[None]:
    """While this lasts, an import of `jsonschema` gets a check that imports the parsers when used.

    What it checks is the same, then and later, with the parsers installed or without.
    """
    if {"jsonschema", PARSERS} & sys.modules.keys() or find_spec(PARSERS) is None:
        yield
        return
    stand_in = ModuleType(PARSERS)
    vars(stand_in)["is_valid_syntax"] = _is_valid_syntax
    sys.modules[PARSERS] = stand_in
    try:
        yield
    finally:
        del sys.modules[PARSERS]


def _is_valid_syntax(term: str, value: str) -> bool:
    from rfc3987_syntax import is_valid_syntax

    return bool(is_valid_syntax(term, value))
