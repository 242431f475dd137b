"""Fixtures that many tests share."""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.browser"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: from the first of them on an event loop runs in this thread.

    Source: https://playwright.dev/python/docs/library (the synchronous API)
    """
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)
