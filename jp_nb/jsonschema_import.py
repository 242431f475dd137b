"""Import `jsonschema` without the slow parsers of one of its formats."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Final

PARSERS: Final = "rfc3987_syntax"
"""Package that JupyterLab installs. `jsonschema` checks the format `iri` with it.

Its import builds about forty parsers, as much work as the rest of `jp-nb run` for a short notebook.

Source: https://github.com/python-jsonschema/jsonschema/blob/main/jsonschema/_format.py
"""


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
