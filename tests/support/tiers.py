"""Parameters of tests that take long: the plain run takes some of them, the tier `deep` all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_deep(values: Iterable[Any], *, quick: Iterable[Any]) -> list[Any]:
    """Return parameters for `values`, all of which but `quick` belong to the tier `deep`."""
    in_plain_run = list(quick)
    return [value if value in in_plain_run else _deep(value) for value in values]


def _deep(value: Any) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.deep)
