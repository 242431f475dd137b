"""Property tests with more examples than the plain ones have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings


def with_examples(count: int, *arguments: Any) -> Callable[[], None]:
    """Return the last of `arguments`, a property test, over the strategies before it."""
    *strategies, test = arguments
    inner: Callable[..., None] = test.hypothesis.inner_test
    decorate: Any = given(*strategies)
    found: Callable[[], None] = settings(max_examples=count)(decorate(inner))
    return found
