"""Match regular expressions in linear time, as a tool or a server may send one that takes forever.

Python's `re` backtracks. The Rust engine in pydantic does not: so it has no lookaround and no
back-references.
"""

from __future__ import annotations

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema


@lru_cache(maxsize=100)
def _compile_pattern(pattern: str) -> SchemaValidator | None:
    """Return a validator for `pattern`; None if the Rust engine does not accept it."""
    text = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
    try:
        return SchemaValidator(text)
    except SchemaError:
        return None


def is_linear_pattern(pattern: str) -> bool:
    """Return True if `pattern` can be checked in linear time: without lookaround, for example."""
    return _compile_pattern(pattern) is not None


def matches_pattern(text: str, pattern: str) -> bool:
    """Return True if `pattern` is somewhere in `text`, or cannot be checked in linear time."""
    compiled = _compile_pattern(pattern)
    return compiled is None or compiled.isinstance_python(text)
