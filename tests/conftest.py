"""Fixtures that many tests share."""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.browser"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
